// SPDX-License-Identifier: Apache-2.0
// Feeds what a guest executes to the model, block by block, and writes what a region took.
//
// A guest speaks through a system call that Linux does not have: 0x4b50(op, value, value).
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "model.h"
#include "qemu_api.h"

#define CALL_NUMBER 0x4b50
#define MAX_VCPUS 1024
#define MAX_ACCESSES (1 << 16)
#define MAX_RANGES 64

QEMU_EXPORT int qemu_plugin_version = QEMU_API_VERSION;

enum op { OP_START = 1, OP_STOP, OP_LAUNCH, OP_TASK, OP_JOIN, OP_SERVER };

struct block {
  uint64_t address, end, last;  // `last`: of its last instruction
  uint64_t num_timed;           // executions inside regions
  struct block* older;
  uint8_t type;  // when it was entered last
  bool is_server;
  unsigned num_insns;
  struct insn insns[];
};

struct vcpu {
  struct core** cores;
  struct cache** l2s;
  uint64_t current, launched;
  struct block* running;
  unsigned num_accesses;
  struct access accesses[MAX_ACCESSES];
  struct counters at_start;
  uint64_t cycle_at_start;
};

static struct vcpu* vcpus[MAX_VCPUS];
static struct block* newest;
static bool is_timing;
// Code of the server and its libraries, as it told itself; none for a plain program.
static struct {
  uint64_t start, end;
} server[MAX_RANGES];
static unsigned num_ranges;

static struct core* core_at(struct vcpu* vcpu, uint64_t index) {
  struct cache** l2 = &vcpu->l2s[index / settings.cores_per_l2];
  if (!*l2) {
    *l2 = malloc(sizeof **l2);
    **l2 = cache_make(settings.l2_bytes, settings.l2_ways);
  }
  if (!vcpu->cores[index]) vcpu->cores[index] = core_make(*l2);
  return vcpu->cores[index];
}

static struct vcpu* vcpu_at(unsigned index) {
  struct vcpu* vcpu = vcpus[index % MAX_VCPUS];
  if (!vcpu) {
    vcpu = calloc(1, sizeof *vcpu);
    vcpu->cores = calloc(settings.cores, sizeof *vcpu->cores);
    vcpu->l2s = calloc(settings.cores / settings.cores_per_l2 + 1, sizeof *vcpu->l2s);
    vcpus[index % MAX_VCPUS] = vcpu;
    core_at(vcpu, 0);
  }
  return vcpu;
}

// Accounts for the block that has run; `next` is where the guest went, 0 where it is not known.
// A server's own code leaves no trace in the caches, and none at all outside regions: what lies
// between a call that warms up, and two that are timed, must not tell them apart.
static void retire(struct vcpu* vcpu, uint64_t next) {
  struct block* block = vcpu->running;
  if (!block) return;
  struct core* core = core_at(vcpu, vcpu->current);
  vcpu->running = NULL;
  if (block->is_server) vcpu->num_accesses = 0;
  if (block->is_server && !is_timing) return;
  block->num_timed += is_timing;
  block->type = core->type;
  uint64_t first_line = block->address >> LINE_SHIFT, last_line = (block->end - 1) >> LINE_SHIFT;
  for (uint64_t line = first_line; line <= last_line && !block->is_server; ++line)
    cache_code(core, line);
  unsigned done = 0;
  for (unsigned i = 0; i < block->num_insns; ++i) {
    unsigned first = done;
    while (done < vcpu->num_accesses && vcpu->accesses[done].insn == i) ++done;
    core_issue(core, &block->insns[i], &vcpu->accesses[first], done - first);
  }
  if (next && block->insns[block->num_insns - 1].kind == KIND_BRANCH)
    core_branched(core, block->last, next != block->end);
  vcpu->num_accesses = 0;
}

static void on_block(unsigned index, void* data) {
  struct vcpu* vcpu = vcpu_at(index);
  struct block* block = data;
  retire(vcpu, block->address);
  vcpu->running = block;
}

static void add_access(struct vcpu* vcpu, uint64_t line, uint16_t insn, bool is_store) {
  unsigned last = vcpu->num_accesses;
  if (last && vcpu->accesses[last - 1].line == line && vcpu->accesses[last - 1].insn == insn)
    return;
  if (last < MAX_ACCESSES)
    vcpu->accesses[vcpu->num_accesses++] = (struct access){line, insn, is_store};
}

static void on_access(unsigned index, qemu_plugin_meminfo_t info, uint64_t address, void* data) {
  struct vcpu* vcpu = vcpu_at(index);
  uint64_t end = address + (1u << qemu_plugin_mem_size_shift(info)) - 1;
  bool is_store = qemu_plugin_mem_is_store(info);
  for (uint64_t line = address >> LINE_SHIFT; line <= end >> LINE_SHIFT; ++line)
    add_access(vcpu, line, (uint16_t)(uintptr_t)data, is_store);
}

static bool is_server(uint64_t address) {
  for (unsigned i = 0; i < num_ranges; ++i)
    if (address >= server[i].start && address < server[i].end) return true;
  return false;
}

static void add_server(uint64_t start, uint64_t end) {
  if (num_ranges == MAX_RANGES) return;
  server[num_ranges].start = start;
  server[num_ranges++].end = end;
  for (struct block* block = newest; block; block = block->older)
    block->is_server = is_server(block->address);
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb* tb) {
  (void)id;
  unsigned num_insns = (unsigned)qemu_plugin_tb_n_insns(tb);
  if (!num_insns) return;
  struct block* block = calloc(1, sizeof *block + num_insns * sizeof *block->insns);
  block->num_insns = num_insns;
  for (unsigned i = 0; i < num_insns; ++i) {
    struct qemu_plugin_insn* insn = qemu_plugin_tb_get_insn(tb, i);
    uint32_t word = 0;
    memcpy(&word, qemu_plugin_insn_data(insn), qemu_plugin_insn_size(insn) == 2 ? 2 : 4);
    block->insns[i] = decode((word & 3) == 3 ? word : decompress((uint16_t)word));
    block->last = qemu_plugin_insn_vaddr(insn);
    block->end = block->last + qemu_plugin_insn_size(insn);
    if (!i) block->address = block->last;
    if (block->insns[i].loads || block->insns[i].stores)
      qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                       (void*)(uintptr_t)i);
  }
  block->is_server = is_server(block->address);
  block->older = newest;
  newest = block;
  qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS, block);
}

static struct counters counted(const struct vcpu* vcpu) {
  struct counters sum = {0};
  for (uint64_t core = 0; core < settings.cores; ++core)
    for (unsigned i = 0; vcpu->cores[core] && i < NUM_COUNTERS; ++i)
      ((uint64_t*)&sum)[i] += ((uint64_t*)&vcpu->cores[core]->counters)[i];
  return sum;
}

// What is in the caches stays; what else a core remembers of before would tell repeats apart.
static void forget(struct core* core) {
  memset(core->streams, 0, sizeof core->streams);
  memset(core->predictions, 0, sizeof core->predictions);
  core->next_stream = core->issued = 0;
}

static void start_region(void) {
  is_timing = true;
  for (unsigned i = 0; i < MAX_VCPUS; ++i) {
    if (!vcpus[i]) continue;
    for (uint64_t core = 0; core < settings.cores; ++core)
      if (vcpus[i]->cores[core]) forget(vcpus[i]->cores[core]);
    vcpus[i]->at_start = counted(vcpus[i]);
    vcpus[i]->cycle_at_start = vcpus[i]->cores[0]->cycle;
  }
}

// Appends {nanoseconds since the epoch, cycles, clock, counters} to the process's own file.
static void stop_region(void) {
  uint64_t record[3 + NUM_COUNTERS] = {0};
  is_timing = false;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  record[0] = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
  record[2] = settings.clock_hz;
  for (unsigned v = 0; v < MAX_VCPUS; ++v) {
    if (!vcpus[v]) continue;
    struct counters now_counted = counted(vcpus[v]);
    record[1] += vcpus[v]->cores[0]->cycle - vcpus[v]->cycle_at_start;
    for (unsigned i = 0; i < NUM_COUNTERS; ++i)
      record[3 + i] += ((uint64_t*)&now_counted)[i] - ((uint64_t*)&vcpus[v]->at_start)[i];
  }
  char path[4096];
  snprintf(path, sizeof path, "%s/%d.regions", settings.folder, (int)getpid());
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (file < 0 || write(file, record, sizeof record) != (ssize_t)sizeof record)
    fprintf(stderr, "kope: cannot write %s\n", path);
  if (file >= 0) close(file);
}

static void begin_task(struct vcpu* vcpu, uint64_t task) {
  vcpu->current = task % settings.cores;
  struct core* core = core_at(vcpu, vcpu->current);
  core->type = core_at(vcpu, 0)->type;
  if (core->cycle < vcpu->launched) core->cycle = vcpu->launched;
}

// The slowest core ends the parallel region.
static void join(struct vcpu* vcpu) {
  uint64_t end = vcpu->launched;
  for (uint64_t i = 0; i < settings.cores; ++i)
    if (vcpu->cores[i] && vcpu->cores[i]->cycle > end) end = vcpu->cores[i]->cycle;
  vcpu->current = 0;
  vcpu->cores[0]->cycle = end;
}

static void on_call(qemu_plugin_id_t id, unsigned index, int64_t number, uint64_t op,
                    uint64_t value, uint64_t end, uint64_t a4, uint64_t a5, uint64_t a6,
                    uint64_t a7, uint64_t a8) {
  (void)id, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
  if (number != CALL_NUMBER) return;
  struct vcpu* vcpu = vcpu_at(index);
  retire(vcpu, 0);
  if (op == OP_START) start_region();
  if (op == OP_STOP) stop_region();
  if (op == OP_LAUNCH) vcpu->launched = vcpu->cores[0]->cycle + settings.launch;
  if (op == OP_TASK) begin_task(vcpu, value);
  if (op == OP_JOIN) join(vcpu);
  if (op == OP_SERVER) add_server(value, end);
}

// Straight pieces of code that ran inside regions: address, end, times, vector type on entry.
static void on_end(qemu_plugin_id_t id, void* data) {
  (void)id, (void)data;
  FILE* file = NULL;
  for (const struct block* block = newest; block; block = block->older) {
    // A server's own process has none; the session that it forked wrote them.
    if (!block->num_timed) continue;
    if (!file && !(file = fopen(settings.profile, "w"))) return;
    fprintf(file, "%lx %lx %lu %u\n", block->address, block->end, block->num_timed, block->type);
  }
  if (file) fclose(file);
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                                    char** argv) {
  (void)info;
  for (int i = 0; i < argc; ++i) {
    if (settings_set(argv[i])) continue;
    fprintf(stderr, "kope: the counter does not understand %s\n", argv[i]);
    return 1;
  }
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
  qemu_plugin_register_vcpu_syscall_cb(id, on_call);
  if (settings.profile[0]) qemu_plugin_register_atexit_cb(id, on_end, NULL);
  return 0;
}
