// SPDX-License-Identifier: Apache-2.0
// Conversions between IEEE formats by their bits, under the names that TVM calls them by.
#ifndef COMPILER_RT_BUILTIN_FP16_H_
#define COMPILER_RT_BUILTIN_FP16_H_

#include <cstdint>
#include <cstring>

/// To the nearest value of a narrower format, ties to even.
template <typename Wide, typename WideBits, int kWideMantissa, typename Narrow, typename NarrowBits,
          int kNarrowMantissa>
inline Narrow __truncXfYf2__(Wide value) {
  constexpr int kWideExponent = sizeof(WideBits) * 8 - 1 - kWideMantissa;
  constexpr int kNarrowExponent = sizeof(NarrowBits) * 8 - 1 - kNarrowMantissa;
  constexpr int kWideBias = (1 << (kWideExponent - 1)) - 1;
  constexpr int kNarrowBias = (1 << (kNarrowExponent - 1)) - 1;
  constexpr int kDropped = kWideMantissa - kNarrowMantissa;
  constexpr WideBits kOne = 1;
  constexpr NarrowBits kInf = NarrowBits((1 << kNarrowExponent) - 1) << kNarrowMantissa;

  WideBits bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const NarrowBits sign = NarrowBits(bits >> (sizeof(WideBits) * 8 - 1))
                          << (sizeof(NarrowBits) * 8 - 1);
  const int exponent = int((bits >> kWideMantissa) & ((kOne << kWideExponent) - 1));
  WideBits mantissa = bits & ((kOne << kWideMantissa) - 1);
  NarrowBits result;
  if (exponent == (1 << kWideExponent) - 1) {
    const NarrowBits quiet = NarrowBits(1) << (kNarrowMantissa - 1);
    result = mantissa ? NarrowBits(kInf | quiet | NarrowBits(mantissa >> kDropped)) : kInf;
  } else {
    const int shifted = exponent - kWideBias + kNarrowBias;
    int dropped = kDropped;
    if (shifted <= 0) {
      mantissa |= exponent ? kOne << kWideMantissa : 0;
      dropped += 1 - shifted;
    }
    if (shifted >= (1 << kNarrowExponent) - 1) {
      result = kInf;
    } else if (dropped > kWideMantissa + 1) {
      result = 0;
    } else {
      const WideBits half = kOne << (dropped - 1);
      const WideBits rest = mantissa & ((kOne << dropped) - 1);
      WideBits kept = mantissa >> dropped;
      kept += rest > half || (rest == half && (kept & 1));
      // A carry out of the mantissa is the next exponent.
      result = NarrowBits(kept + (shifted > 0 ? WideBits(shifted) << kNarrowMantissa : 0));
    }
  }
  result |= sign;
  Narrow narrow;
  std::memcpy(&narrow, &result, sizeof(narrow));
  return narrow;
}

/// The same value in a wider format.
template <typename Narrow, typename NarrowBits, int kNarrowMantissa, typename Wide,
          typename WideBits, int kWideMantissa>
inline Wide __extendXfYf2__(Narrow value) {
  constexpr int kWideExponent = sizeof(WideBits) * 8 - 1 - kWideMantissa;
  constexpr int kNarrowExponent = sizeof(NarrowBits) * 8 - 1 - kNarrowMantissa;
  constexpr int kWideBias = (1 << (kWideExponent - 1)) - 1;
  constexpr int kNarrowBias = (1 << (kNarrowExponent - 1)) - 1;
  constexpr int kAdded = kWideMantissa - kNarrowMantissa;

  NarrowBits bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const WideBits sign = WideBits(bits >> (sizeof(NarrowBits) * 8 - 1))
                        << (sizeof(WideBits) * 8 - 1);
  int exponent = (bits >> kNarrowMantissa) & ((1 << kNarrowExponent) - 1);
  WideBits mantissa = bits & ((NarrowBits(1) << kNarrowMantissa) - 1);
  WideBits result = 0;
  if (exponent == (1 << kNarrowExponent) - 1) {
    result = (WideBits((1 << kWideExponent) - 1) << kWideMantissa) | (mantissa << kAdded);
  } else if (exponent != 0 || mantissa != 0) {
    if (exponent == 0) {
      for (exponent = 1; !(mantissa >> kNarrowMantissa); --exponent) mantissa <<= 1;
      mantissa &= (WideBits(1) << kNarrowMantissa) - 1;
    }
    result = (WideBits(exponent - kNarrowBias + kWideBias) << kWideMantissa) | (mantissa << kAdded);
  }
  result |= sign;
  Wide wide;
  std::memcpy(&wide, &result, sizeof(wide));
  return wide;
}

#endif  // COMPILER_RT_BUILTIN_FP16_H_
