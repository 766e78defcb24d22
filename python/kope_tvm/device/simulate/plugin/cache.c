// SPDX-License-Identifier: Apache-2.0
// First-level caches a core, second level for several; filled through one port, with next-line
// streams found ahead of time as the hardware's prefetcher does.
#include <stdlib.h>

#include "model.h"

struct cache cache_make(uint64_t bytes, uint64_t ways) {
  uint64_t sets = (bytes >> LINE_SHIFT) / ways;
  return (struct cache){sets, ways, calloc(sets * ways, sizeof(uint64_t))};
}

// Whether it was there; it is now, and the oldest of its set may be gone.
bool cache_hit(struct cache* cache, uint64_t line) {
  uint64_t* set = cache->lines + line % cache->sets * cache->ways;
  uint64_t way = 0, tag = line + 1;
  while (way < cache->ways && set[way] != tag) ++way;
  bool was_there = way < cache->ways;
  for (uint64_t i = was_there ? way : cache->ways - 1; i > 0; --i) set[i] = set[i - 1];
  set[0] = tag;
  return was_there;
}

// The stream that a line continues, or a new one in place of the oldest.
static struct stream* stream_of(struct core* core, uint64_t line) {
  for (unsigned i = 0; i < NUM_STREAMS; ++i)
    if (core->streams[i].line + 1 == line || core->streams[i].line - 1 == line)
      return &core->streams[i];
  struct stream* stream = &core->streams[core->next_stream++ % NUM_STREAMS];
  *stream = (struct stream){0};
  return stream;
}

// The cycle at which a line is there whose fill is asked for now: the port takes one at a time.
static uint64_t fill(struct core* core, uint64_t cycle, bool is_far) {
  uint64_t scale = is_far ? settings.memory_scale : settings.l2_scale;
  uint64_t occupancy = is_far ? settings.memory_occupancy : settings.l2_occupancy;
  uint64_t latency = is_far ? settings.memory_latency : settings.l2_latency;
  occupancy = scaled(occupancy, scale, &core->owed[OWED_PORT]);
  latency = scaled(latency, scale, &core->owed[OWED_FILL]);
  core->fill_free = (core->fill_free > cycle ? core->fill_free : cycle) + occupancy;
  return core->fill_free > cycle + latency ? core->fill_free : cycle + latency;
}

// The cycle at which the line is there; `cycle` itself where it was in the first level.
uint64_t cache_data(struct core* core, uint64_t line, uint64_t cycle) {
  if (cache_hit(&core->data, line)) return cycle;
  ++core->counters.l1_misses;
  bool is_far = !cache_hit(core->l2, line);
  core->counters.l2_misses += is_far;
  struct stream* stream = stream_of(core, line);
  bool continues = stream->line != 0;
  uint64_t* ahead = &stream->arrivals[stream->next];
  uint64_t arrives = *ahead ? *ahead : fill(core, cycle, is_far);
  // A confirmed stream asks for the line that lies STREAM_DEPTH further.
  *ahead = continues ? fill(core, cycle, is_far) : 0;
  stream->next = (stream->next + 1) % STREAM_DEPTH;
  stream->line = line;
  return arrives > cycle ? arrives : cycle;
}

// Code is waited for where it was in the first level before: what is met for the first time, such
// as the way into a measurement, would only tell the first repeat from the others.
void cache_code(struct core* core, uint64_t line) {
  if (cache_hit(&core->code, line)) return;
  if (!cache_hit(core->l2, line)) return;
  ++core->counters.code_misses;
  core->cycle += scaled(settings.l2_latency, settings.l2_scale, &core->owed[OWED_FILL]);
  core->issued = 0;
}
