// SPDX-License-Identifier: Apache-2.0
// The machine's sizes. What LLVM's model does not say is assumed, from what is reported of the K1:
// latencies and occupancies in cycles a line, a branch's and a parallel loop's cost in cycles.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

struct settings settings = {
    .clock_hz = 1600000000,
    .cores = 1,
    .cores_per_l2 = 4,
    .width = 2,
    .mispredict = 8,
    .launch = 3000,
    .l1_bytes = 32768,
    .l1_ways = 4,
    .l2_bytes = 524288,
    .l2_ways = 16,
    .l2_latency = 20,
    .l2_occupancy = 8,
    .memory_latency = 200,
    .memory_occupancy = 26,
    .max_misses = 8,
    .vector_scale = 1000,
    .scalar_scale = 1000,
    .l1_scale = 1000,
    .l2_scale = 1000,
    .memory_scale = 1000,
};
static const struct {
  const char* name;
  uint64_t* value;
} options[] = {
    {"clock_hz", &settings.clock_hz},         {"cores", &settings.cores},
    {"l1_bytes", &settings.l1_bytes},         {"l2_bytes", &settings.l2_bytes},
    {"vector_scale", &settings.vector_scale}, {"scalar_scale", &settings.scalar_scale},
    {"l1_scale", &settings.l1_scale},         {"l2_scale", &settings.l2_scale},
    {"memory_scale", &settings.memory_scale},
};

bool settings_set(const char* argument) {
  const char* value = strchr(argument, '=');
  if (!value) return false;
  size_t length = (size_t)(value++ - argument);
  if (!strncmp(argument, "costs", length)) return costs_load(value);
  if (!strncmp(argument, "regions", length))
    return snprintf(settings.folder, sizeof settings.folder, "%s", value) <
           (int)sizeof settings.folder;
  if (!strncmp(argument, "profile", length))
    return snprintf(settings.profile, sizeof settings.profile, "%s", value) <
           (int)sizeof settings.profile;
  for (unsigned i = 0; i < sizeof options / sizeof *options; ++i) {
    if (strncmp(argument, options[i].name, length) || options[i].name[length]) continue;
    *options[i].value = strtoull(value, NULL, 10);
    return *options[i].value > 0;
  }
  return false;
}
