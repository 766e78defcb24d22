// SPDX-License-Identifier: Apache-2.0
// A core as the simulated board sees it: costs, instructions, caches, scoreboard.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LINE_SHIFT 6
#define MAX_UNITS 16
#define MAX_SOURCES 5
#define NUM_REGISTERS 96  // x0-x31, f0-f31, v0-v31
#define NUM_TYPES 28      // SEW 8 16 32 64, each with LMUL 1/8 ... 8
#define NUM_STREAMS 8
#define STREAM_DEPTH 4
#define NUM_PREDICTIONS 1024
#define F(n) (32 + (n))
#define V(n) (64 + (n))

struct cost {
  uint16_t latency, busy, units;  // units: a bit for each that can do it
};

enum span { SPAN_ONE, SPAN_GROUP, SPAN_WIDE, SPAN_OF_EEW };  // + log2(EEW / 8) for the last

struct operand {
  uint8_t reg, span;
};

enum kind { KIND_SCALAR, KIND_VECTOR, KIND_BRANCH, KIND_JUMP, KIND_SET_TYPE, KIND_SET_UNKNOWN };

struct insn {
  const struct cost* costs;  // of NUM_TYPES
  struct operand sources[MAX_SOURCES], result;
  uint8_t num_sources, kind, type;
  bool has_result, loads, stores;
};

struct settings {
  uint64_t clock_hz, cores, cores_per_l2, width, mispredict, launch;
  uint64_t l1_bytes, l1_ways, l2_bytes, l2_ways;
  uint64_t l2_latency, l2_occupancy, memory_latency, memory_occupancy, max_misses;
  // Of 1000: how much dearer a calibrated machine is than what is assumed of it.
  uint64_t vector_scale, scalar_scale, l1_scale, l2_scale, memory_scale;
  char folder[4000], profile[4000];  // where regions are written, and a profile if any
};
extern struct settings settings;

struct counters {
  uint64_t instructions, vector, scalar, memory, branches;
  uint64_t wait_dependency, wait_memory, wait_unit, mispredicted;
  uint64_t l1_misses, l2_misses, code_misses;
};
#define NUM_COUNTERS (sizeof(struct counters) / sizeof(uint64_t))

struct cache {
  uint64_t sets, ways;
  uint64_t* lines;  // each set newest first; 0 is empty
};

struct stream {
  uint64_t line, next;
  uint64_t arrivals[STREAM_DEPTH];  // of the lines that were asked for ahead of time; 0: none
};

enum { OWED_LATENCY, OWED_BUSY, OWED_BRANCH, OWED_FILL, OWED_PORT, NUM_OWED };

struct core {
  uint64_t cycle, issued, fill_free, next_stream, owed[NUM_OWED];
  uint64_t ready[NUM_REGISTERS], unit_free[MAX_UNITS];
  struct stream streams[NUM_STREAMS];
  bool from_memory[NUM_REGISTERS];
  uint8_t type, predictions[NUM_PREDICTIONS];
  struct cache data, code, *l2;
  struct counters counters;
};

struct access {
  uint64_t line;
  uint16_t insn;
  bool is_store;
};

// settings.c: whether `name=value` was understood.
bool settings_set(const char* argument);
// Cycles times a scale; what is left of a cycle is owed until it makes a whole one.
static inline uint64_t scaled(uint64_t cycles, uint64_t scale, uint64_t* owed) {
  if (scale == 1000) return cycles;
  uint64_t all = cycles * scale + *owed;
  *owed = all % 1000;
  return all / 1000;
}

// costs.c: whether both tables could be read; the costs of an instruction word.
bool costs_load(const char* prefix);
const struct cost* costs_of(uint32_t word);

// decode.c
struct insn decode(uint32_t word);
uint32_t decompress(uint16_t word);

// cache.c
struct cache cache_make(uint64_t bytes, uint64_t ways);
bool cache_hit(struct cache* cache, uint64_t line);
uint64_t cache_data(struct core* core, uint64_t line, uint64_t cycle);
void cache_code(struct core* core, uint64_t line);

// core.c
struct core* core_make(struct cache* l2);
void core_issue(struct core* core, const struct insn* insn, const struct access* accesses,
                uint64_t num_accesses);
void core_branched(struct core* core, uint64_t address, bool taken);
