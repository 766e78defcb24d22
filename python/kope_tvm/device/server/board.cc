// SPDX-License-Identifier: Apache-2.0
#include "board.h"

#include <glob.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/json.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "log.h"
#include "versions.h"

namespace kope {
namespace {

namespace json = tvm::ffi::json;

constexpr size_t kMaxFileBytes = 64 << 10;

sigjmp_buf no_vectors;

void JumpOut(int) { siglongjmp(no_vectors, 1); }

std::vector<int> UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

std::string Start(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxFileBytes, '\0');
  file.read(text.data(), text.size());
  text.resize(file.gcount());
  return text;
}

tvm::ffi::String Text(const std::string& text) { return tvm::ffi::String(text); }

}  // namespace

int VlenBits() {
#if defined(__riscv)
  struct sigaction jump{}, before{};
  jump.sa_handler = JumpOut;
  sigaction(SIGILL, &jump, &before);
  volatile int bits = 0;
  if (sigsetjmp(no_vectors, 1) == 0) {
    unsigned long bytes;
    asm volatile("csrr %0, 0xc22" : "=r"(bytes));  // vlenb
    bits = static_cast<int>(bytes * 8);
  }
  sigaction(SIGILL, &before, nullptr);
  return bits;
#else
  return 0;
#endif
}

void PinTo(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) {
    Log(std::string("cannot be put on the given cores: ") + std::strerror(errno));
  }
}

std::string Info(const Options& options) {
  json::Array cores;
  for (const int core : UsableCores()) cores.push_back(int64_t(core));
  utsname system{};
  uname(&system);
  json::Object info;
  info.Set(Text("tvm"), Text(kTvmVersion));
  info.Set(Text("ffi"), Text(kFfiVersion));
  info.Set(Text("key"), Text(options.key));
  info.Set(Text("vlen_bits"), int64_t(VlenBits()));
  info.Set(Text("cores"), cores);
  info.Set(Text("pid"), int64_t(getpid()));
  info.Set(Text("emulated"), options.emulated);
  info.Set(Text("timer"), Text(options.timer));
  info.Set(Text("machine"), Text(system.machine));
  info.Set(Text("kernel"), Text(system.release));
  return std::string(json::Stringify(info));
}

std::string Files(const std::string& pattern) {
  const bool is_public = pattern.rfind("/proc/", 0) == 0 || pattern.rfind("/sys/", 0) == 0;
  if (!is_public || pattern.find("..") != std::string::npos) {
    TVM_FFI_THROW(ValueError) << "E_FILE only files under /proc and /sys are shown, not "
                              << pattern;
  }
  json::Object files;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (size_t at = 0; at < found.gl_pathc; ++at) {
      files.Set(Text(found.gl_pathv[at]), Text(Start(found.gl_pathv[at])));
    }
  }
  globfree(&found);
  return std::string(json::Stringify(files));
}

std::string HardwareProbe() {
  json::Array pairs;
#if defined(__riscv)
  struct Pair {
    int64_t key;
    uint64_t value;
  };
  constexpr long kCall = 258;  // riscv_hwprobe
  Pair asked[] = {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0}};
  if (syscall(kCall, asked, sizeof(asked) / sizeof(asked[0]), 0, nullptr, 0) == 0) {
    for (const Pair& each : asked) {
      if (each.key >= 0) pairs.push_back(json::Array{each.key, int64_t(each.value)});
    }
  }
#endif
  return std::string(json::Stringify(pairs));
}

}  // namespace kope
