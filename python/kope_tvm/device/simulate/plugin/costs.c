// SPDX-License-Identifier: Apache-2.0
// Reads the two tables that derive.py wrote.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define MAX_CLASSES 512
#define BUCKETS 256

struct row {
  uint32_t mask, match;
  const struct cost* costs;
  struct row* next;
};

static struct cost classes[MAX_CLASSES][NUM_TYPES];
static struct row *first[BUCKETS], *last[BUCKETS];
static char unit_names[MAX_UNITS][16];
static const struct cost unknown[NUM_TYPES] = {[0 ... NUM_TYPES - 1] = {1, 1, 0}};

static unsigned bucket(uint32_t word) { return (word >> 2 & 31) << 3 | (word >> 12 & 7); }

static uint16_t unit(const char* name) {
  for (unsigned i = 0; i < MAX_UNITS; ++i) {
    if (!unit_names[i][0]) snprintf(unit_names[i], sizeof unit_names[i], "%s", name);
    if (!strcmp(unit_names[i], name)) return (uint16_t)(1u << i);
  }
  return 0;
}

static uint16_t units(char* names) {
  uint16_t found = 0;
  char* rest = NULL;
  for (char* name = strtok_r(names, "|", &rest); name; name = strtok_r(NULL, "|", &rest))
    if (*name != '-') found |= unit(name);
  return found;
}

static bool load_classes(FILE* file) {
  char line[256], lmul[8], names[128];
  unsigned number, sew, latency, busy, previous = MAX_CLASSES, type = 0;
  while (fgets(line, sizeof line, file)) {
    if (line[0] == '#') continue;
    if (sscanf(line, "%u %u %7s %u %127s %u", &number, &sew, lmul, &latency, names, &busy) != 6 ||
        number >= MAX_CLASSES)
      return false;
    type = number == previous ? type + 1 : 0;
    if (type >= NUM_TYPES) return false;
    previous = number;
    struct cost cost = {(uint16_t)latency, (uint16_t)busy, units(names)};
    for (unsigned i = type; i < NUM_TYPES; ++i) classes[number][i] = cost;
  }
  return previous < MAX_CLASSES;
}

static void append(unsigned at, struct row row) {
  struct row* kept = malloc(sizeof row);
  *kept = row;
  if (last[at])
    last[at]->next = kept;
  else
    first[at] = kept;
  last[at] = kept;
}

static bool load_encodings(FILE* file) {
  char line[256], name[64];
  unsigned mask, match, number;
  while (fgets(line, sizeof line, file)) {
    if (line[0] == '#') continue;
    if (sscanf(line, "%x %x %u %63s", &mask, &match, &number, name) != 4 || number >= MAX_CLASSES)
      return false;
    // A row that leaves funct3 open lies in all eight buckets of its opcode.
    unsigned end = mask & 0x7000 ? 1 : 8;
    for (unsigned i = 0; i < end; ++i)
      append(bucket(match) + i, (struct row){mask, match, classes[number], NULL});
  }
  return true;
}

static bool load(const char* prefix, const char* suffix, bool (*read)(FILE*)) {
  char path[4096];
  snprintf(path, sizeof path, "%s%s", prefix, suffix);
  FILE* file = fopen(path, "r");
  if (!file) return false;
  bool is_right = read(file);
  fclose(file);
  return is_right;
}

bool costs_load(const char* prefix) {
  return load(prefix, ".classes.tsv", load_classes) &&
         load(prefix, ".encodings.tsv", load_encodings);
}

const struct cost* costs_of(uint32_t word) {
  for (struct row* row = first[bucket(word)]; row; row = row->next)
    if ((word & row->mask) == row->match) return row->costs;
  return unknown;
}
