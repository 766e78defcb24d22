// SPDX-License-Identifier: Apache-2.0
// Inputs that anyone can make anew, and the comparison of what came out with what should have.
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODE_INT, CODE_UINT, CODE_FLOAT, CODE_BFLOAT = 4, CODE_BOOL = 6 };

static inline void* take(size_t bytes) {
  void* taken = aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (!taken) exit(2);
  memset(taken, 0xa5, bytes);
  return taken;
}

// 32 mixed bits a position.
static inline uint32_t hashed(uint64_t position, uint32_t number) {
  uint32_t found = (uint32_t)((position + number * UINT64_C(0x9E3779B9)) * UINT64_C(0x85EBCA6B));
  found = (found ^ (found >> 15)) * UINT32_C(0xC2B2AE35);
  return found ^ (found >> 16);
}

static inline uint16_t half_of(float value) {  // Of the multiples of 1/128 in [-1, 1] only.
  int exponent;
  float part = frexpf(fabsf(value), &exponent);
  if (part == 0) return 0;
  return (uint16_t)((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 |
                    (int)ldexpf(part * 2 - 1, 10));
}

static inline uint16_t bfloat_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
}

// Floats are n/128 in [-1, 1]; 8-bit integers any; wider ones 0 or 1.
static inline void put(void* to, int code, int bits, size_t at, uint32_t mixed) {
  float value = (float)((int)(mixed % 257) - 128) / 128;
  if (code == CODE_FLOAT && bits == 32)
    ((float*)to)[at] = value;
  else if (code == CODE_FLOAT && bits == 64)
    ((double*)to)[at] = value;
  else if (code == CODE_FLOAT)
    ((uint16_t*)to)[at] = half_of(value);
  else if (code == CODE_BFLOAT)
    ((uint16_t*)to)[at] = bfloat_of(value);
  else if (code == CODE_BOOL)
    ((uint8_t*)to)[at] = mixed & 1;
  else if (bits == 8)
    ((uint8_t*)to)[at] = mixed & 255;
  else if (bits == 16)
    ((uint16_t*)to)[at] = mixed & 1;
  else if (bits == 32)
    ((uint32_t*)to)[at] = mixed & 1;
  else
    ((uint64_t*)to)[at] = mixed & 1;
}

static inline void* input(int number, int code, int bits, size_t count) {
  void* made = take(count * (size_t)bits / 8);
  for (size_t i = 0; i < count; ++i) put(made, code, bits, i, hashed(i, (uint32_t)number));
  return made;
}

static inline double half_value(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                : exponent == 0 ? ldexp(fraction, -24)
                                : ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -size : size;
}

static inline double bfloat_value(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static inline double value_of(const void* from, int code, int bits, size_t at) {
  if (code == CODE_FLOAT && bits == 32) return ((const float*)from)[at];
  if (code == CODE_FLOAT && bits == 64) return ((const double*)from)[at];
  if (code == CODE_FLOAT) return half_value(((const uint16_t*)from)[at]);
  if (code == CODE_BFLOAT) return bfloat_value(((const uint16_t*)from)[at]);
  if (code == CODE_INT && bits == 8) return ((const int8_t*)from)[at];
  if (code == CODE_INT && bits == 16) return ((const int16_t*)from)[at];
  if (code == CODE_INT && bits == 32) return ((const int32_t*)from)[at];
  if (code == CODE_INT) return (double)((const int64_t*)from)[at];
  if (bits == 8) return ((const uint8_t*)from)[at];
  if (bits == 16) return ((const uint16_t*)from)[at];
  if (bits == 32) return ((const uint32_t*)from)[at];
  return (double)((const uint64_t*)from)[at];
}

// Every `stride`-th element; returns how many are further off than `allowed`.
static inline int compare(const char* name, const void* found, int code, int bits, size_t stride,
                          const double* wanted, size_t num_wanted, double allowed) {
  int num_wrong = 0;
  double worst = 0;
  for (size_t i = 0; i < num_wanted; ++i) {
    double value = value_of(found, code, bits, i * stride);
    if (value == wanted[i] || (isnan(value) && isnan(wanted[i]))) continue;
    double error = fabs(value - wanted[i]);
    if (!(error <= allowed)) ++num_wrong;
    if (!(error <= worst)) worst = error;
  }
  printf("%s: %zu values, largest error %.3g of %.3g allowed: %s\n", name, num_wanted, worst,
         allowed, num_wrong ? "WRONG" : "right");
  return num_wrong;
}
