// SPDX-License-Identifier: Apache-2.0
// Loaded by the board's server under the counter: time is what the simulated machine says, and a
// parallel loop runs its tasks one after another, each on a core of that machine.
#include <fcntl.h>
#include <link.h>
#include <sys/syscall.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/timer.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

namespace kope {
namespace {

constexpr int64_t kCall = 0x4b50;
constexpr int kRecordNumbers = 15;
enum Op : int64_t { kStart = 1, kStop, kLaunch, kTask, kJoin, kServer };

void Tell(Op op, uint64_t value = 0, uint64_t second = 0) { syscall(kCall, op, value, second); }

/// Says where the server's own code lies: all that is loaded before the first candidate.
int TellCode(dl_phdr_info* object, size_t, void*) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& header = object->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || !(header.p_flags & PF_X)) continue;
    uint64_t start = object->dlpi_addr + header.p_vaddr;
    Tell(kServer, start, start + header.p_memsz);
  }
  return 0;
}

/// Nanoseconds of the region that this process ended last.
int64_t LastNanos() {
  const char* folder = std::getenv("KOPE_SIMULATED_REGIONS");
  TVM_FFI_ICHECK(folder) << "KOPE_SIMULATED_REGIONS is not set";
  std::string path = std::string(folder) + "/" + std::to_string(getpid()) + ".regions";
  int file = open(path.c_str(), O_RDONLY);
  uint64_t record[kRecordNumbers] = {0};
  bool is_read = file >= 0 && lseek(file, -static_cast<off_t>(sizeof record), SEEK_END) >= 0 &&
                 read(file, record, sizeof record) == static_cast<ssize_t>(sizeof record);
  if (file >= 0) close(file);
  TVM_FFI_ICHECK(is_read) << "no region in " << path << "; the emulator has no counter";
  return static_cast<int64_t>(static_cast<double>(record[1]) * 1e9 /
                              static_cast<double>(record[2]));
}

class SimulatedTimerNode : public tvm::runtime::TimerNode {
 public:
  void Start() final { Tell(kStart); }
  void Stop() final {
    Tell(kStop);
    nanos_ = LastNanos();
  }
  int64_t SyncAndGetElapsedNanos() final { return nanos_; }
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("kope.SimulatedTimer", SimulatedTimerNode,
                                    tvm::runtime::TimerNode);

 private:
  int64_t nanos_{0};
};

int Launch(FTVMParallelLambda run, void* data, int num_tasks) {
  static const char* given = std::getenv("KOPE_SIMULATED_CORES");
  static const int num_cores = given ? std::atoi(given) : 1;
  TVMParallelGroupEnv group;
  group.sync_handle = nullptr;
  group.num_task = num_tasks > 0 ? num_tasks : num_cores;
  int status = 0;
  Tell(kLaunch);
  for (int task = 0; task < group.num_task; ++task) {
    Tell(kTask, static_cast<uint64_t>(task));
    if (int failed = run(task, &group, data)) status = failed;
  }
  Tell(kJoin);
  return status;
}

__attribute__((constructor)) void Register() {
  auto timer = [](DLDevice) {
    return tvm::runtime::Timer(tvm::ffi::make_object<SimulatedTimerNode>());
  };
  tvm::ffi::Function::SetGlobal("runtime.timer.cpu", tvm::ffi::Function::FromTyped(timer), true);
  // Registered after the runtime's own: the later one is what a loaded module finds.
  void* launch = reinterpret_cast<void*>(Launch);
  TVMFFIEnvModRegisterContextSymbol("__TVMBackendParallelLaunch", launch);
  dl_iterate_phdr(TellCode, nullptr);
}

}  // namespace
}  // namespace kope
