// SPDX-License-Identifier: Apache-2.0
// In order, up to `width` instructions a cycle: each waits for what it reads and for its unit.
#include <stdlib.h>

#include "model.h"

#define UNKNOWN_TYPE 6  // SEW 8, LMUL 8: the most expensive, where vtype came from a register

struct core* core_make(struct cache* l2) {
  struct core* core = calloc(1, sizeof *core);
  core->data = cache_make(settings.l1_bytes, settings.l1_ways);
  core->code = cache_make(settings.l1_bytes, settings.l1_ways);
  core->l2 = l2;
  core->type = UNKNOWN_TYPE;
  return core;
}

// Registers in an operand.
static unsigned length(const struct core* core, unsigned span) {
  int lmul = core->type % 7 - 3, sew = core->type / 7;
  if (span == SPAN_ONE) return 1;
  if (span == SPAN_WIDE) ++lmul;
  if (span >= SPAN_OF_EEW) lmul += (int)span - SPAN_OF_EEW - sew;
  return lmul <= 0 ? 1 : lmul >= 3 ? 8 : 1u << lmul;
}

static unsigned past(const struct core* core, struct operand operand) {
  unsigned end = operand.reg + length(core, operand.span);
  return end < NUM_REGISTERS ? end : NUM_REGISTERS;
}

struct wait {
  uint64_t until;
  bool for_memory;
};

static struct wait sources_ready(const struct core* core, const struct insn* insn) {
  struct wait wait = {0, false};
  for (unsigned i = 0; i < insn->num_sources; ++i) {
    unsigned end = past(core, insn->sources[i]);
    for (unsigned reg = insn->sources[i].reg; reg < end; ++reg)
      if (core->ready[reg] > wait.until)
        wait = (struct wait){core->ready[reg], core->from_memory[reg]};
  }
  return wait;
}

static unsigned free_unit(const struct core* core, unsigned units) {
  unsigned best = MAX_UNITS;
  for (unsigned i = 0; units >> i; ++i)
    if (units >> i & 1 && (best == MAX_UNITS || core->unit_free[i] < core->unit_free[best]))
      best = i;
  return best;
}

// Where the instruction starts; the core's cycle and what it waited for move on.
static uint64_t start(struct core* core, const struct insn* insn, struct cost cost) {
  uint64_t earliest = core->cycle + (core->issued >= settings.width);
  struct wait wait = sources_ready(core, insn);
  unsigned unit = free_unit(core, cost.units);
  uint64_t unit_free = unit < MAX_UNITS ? core->unit_free[unit] : 0;
  uint64_t at = earliest > wait.until ? earliest : wait.until;
  if (at > earliest)
    *(wait.for_memory ? &core->counters.wait_memory : &core->counters.wait_dependency) +=
        at - earliest;
  if (unit_free > at) {
    core->counters.wait_unit += unit_free - at;
    at = unit_free;
  }
  if (unit < MAX_UNITS) core->unit_free[unit] = at + cost.busy;
  core->issued = at == core->cycle ? core->issued + 1 : 1;
  core->cycle = at;
  return at;
}

// Only so many lines can be under way.
static void limit_misses(struct core* core) {
  uint64_t backlog = settings.max_misses * settings.memory_occupancy * settings.memory_scale / 1000;
  if (core->fill_free > core->cycle + backlog) {
    core->counters.wait_memory += core->fill_free - backlog - core->cycle;
    core->cycle = core->fill_free - backlog;
    core->issued = 0;
  }
}

static void count(struct core* core, const struct insn* insn) {
  ++core->counters.instructions;
  if (insn->kind == KIND_VECTOR)
    ++core->counters.vector;
  else
    ++core->counters.scalar;
  core->counters.memory += insn->loads || insn->stores;
  core->counters.branches += insn->kind == KIND_BRANCH;
}

static struct cost cost_of(struct core* core, const struct insn* insn) {
  struct cost cost = insn->costs[core->type];
  uint64_t scale = insn->loads || insn->stores ? settings.l1_scale
                   : insn->kind == KIND_VECTOR ? settings.vector_scale
                                               : settings.scalar_scale;
  cost.latency = (uint16_t)scaled(cost.latency, scale, &core->owed[OWED_LATENCY]);
  cost.busy = (uint16_t)scaled(cost.busy, scale, &core->owed[OWED_BUSY]);
  return cost;
}

void core_issue(struct core* core, const struct insn* insn, const struct access* accesses,
                uint64_t num_accesses) {
  struct cost cost = cost_of(core, insn);
  uint64_t at = start(core, insn, cost), there = at;
  count(core, insn);
  for (uint64_t i = 0; i < num_accesses; ++i) {
    uint64_t arrives = cache_data(core, accesses[i].line, at);
    if (!accesses[i].is_store && arrives > there) there = arrives;
  }
  if (num_accesses) limit_misses(core);
  if (insn->has_result) {
    unsigned end = past(core, insn->result);
    for (unsigned reg = insn->result.reg; reg < end; ++reg) {
      core->ready[reg] = there + cost.latency;
      core->from_memory[reg] = there > at;
    }
  }
  if (insn->kind == KIND_SET_TYPE) core->type = insn->type;
  if (insn->kind == KIND_SET_UNKNOWN) core->type = UNKNOWN_TYPE;
}

// Two-bit counters, from 1 (not taken for long) to 4; a branch met for the first time, at 0, is
// guessed right for the reason that cache_code gives. A taken branch ends the group that issues
// together.
void core_branched(struct core* core, uint64_t address, bool taken) {
  uint8_t* prediction = &core->predictions[address >> 1 & (NUM_PREDICTIONS - 1)];
  if (!*prediction) *prediction = taken ? 4 : 1;
  bool was_right = (*prediction >= 3) == taken;
  if (taken && *prediction < 4) ++*prediction;
  if (!taken && *prediction > 1) --*prediction;
  if (!was_right) {
    ++core->counters.mispredicted;
    core->cycle += scaled(settings.mispredict, settings.scalar_scale, &core->owed[OWED_BRANCH]);
    core->issued = 0;
  } else if (taken) {
    core->issued = settings.width;
  }
}
