// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "log.h"
#include "src/runtime/rpc/rpc_endpoint.h"

namespace kope {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMillis = 50;
/// A client that closed may have sent its goodbye just before.
constexpr double kGoodbyeSecs = 1.0;

double SecsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class SocketChannel : public tvm::runtime::RPCChannel {
 public:
  explicit SocketChannel(Socket client) : client_(std::move(client)) {}

  size_t Send(const void* data, size_t size) final {
    client_.SendAll(data, size);
    return size;
  }

  size_t Recv(void* data, size_t size) final {
    const ssize_t came = recv(client_.fd(), data, size, 0);
    if (came < 0) TVM_FFI_THROW(RuntimeError) << "recv: " << std::strerror(errno);
    return came;
  }

 private:
  Socket client_;
};

uint64_t UsedBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    uint64_t kib = 0;
    if (word == "VmData:" && status >> kib) return kib << 10;
  }
  return 0;
}

void Limit(int resource, uint64_t value) {
  const rlimit limit{value, value};
  setrlimit(resource, &limit);
}

/// What the child may use up: the rest kills it, or fails in it.
void LimitSession(const Options& options, double secs) {
  const uint64_t cores =
      options.cores.empty() ? sysconf(_SC_NPROCESSORS_ONLN) : options.cores.size();
  Limit(RLIMIT_CORE, 0);
  Limit(RLIMIT_DATA, UsedBytes() + options.memory_bytes);
  Limit(RLIMIT_CPU, static_cast<uint64_t>(secs + 1) * cores);
  Limit(RLIMIT_FSIZE, options.file_bytes);
  signal(SIGXFSZ, SIG_IGN);  // A write that is too long fails.
}

[[noreturn]] void BecomeSession(const Options& options, Socket client, double secs,
                                const std::string& folder) {
  int status = 1;
  try {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    LimitSession(options, secs);
    if (chdir(folder.c_str()) != 0) throw WireError(folder + ": " + std::strerror(errno));
    tvm::runtime::RPCEndpoint::Create(std::make_unique<SocketChannel>(std::move(client)),
                                      "kope-server", "")
        ->ServerLoop();
    status = 0;
  } catch (const std::exception& error) {
    Log(std::string("session: ") + error.what());
  }
  _exit(status);  // No destructors: a candidate may have broken what they tidy up.
}

/// How a session ended; `what` is for the client and the log.
struct End {
  bool was_quiet = true;
  std::string what = "closed";
};

End EndOf(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return {false,
            std::string("killed by ") + sigabbrev_np(number) + " (" + strsignal(number) + ")"};
  }
  if (WEXITSTATUS(status) != 0) {
    return {false, "exited with status " + std::to_string(WEXITSTATUS(status))};
  }
  return {};
}

bool HasHungUp(const Socket& client) {
  pollfd asked{client.fd(), POLLRDHUP, 0};
  return poll(&asked, 1, kPollMillis) > 0 && (asked.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

int Kill(pid_t child) {
  int status = 0;
  kill(-child, SIGKILL);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return status;
}

End Await(pid_t child, const Socket& client, double secs) {
  const Clock::time_point started = Clock::now();
  Clock::time_point hung_up{};
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return EndOf(status);
    if (SecsSince(started) > secs) {
      Kill(child);
      return {false, "killed after its limit of " + std::to_string(static_cast<int>(secs)) + " s"};
    }
    if (hung_up != Clock::time_point{}) {
      if (SecsSince(hung_up) > kGoodbyeSecs) {
        Kill(child);
        return {true, "killed: its client has gone"};
      }
      usleep(kPollMillis * 1000);
    } else if (HasHungUp(client)) {
      hung_up = Clock::now();
    }
  }
}

std::string NewFolder(const Options& options) {
  std::string path = options.work_dir + "/kope-session-XXXXXX";
  if (!mkdtemp(path.data())) throw WireError(path + ": " + std::strerror(errno));
  return path;
}

void Remove(const std::string& folder) {
  const pid_t child = fork();
  if (child == 0) {
    execlp("rm", "rm", "-rf", folder.c_str(), nullptr);
    _exit(127);
  }
  waitpid(child, nullptr, 0);
}

/// "RPCSessionTimeoutError: " is what TVM's client knows a limit by.
std::string ForClient(const Options& options, const End& end) {
  const bool is_late = end.what.rfind("killed after", 0) == 0;
  return std::string(is_late ? "RPCSessionTimeoutError: " : "") + "the session on board " +
         options.key + " was " + end.what;
}

}  // namespace

void ServeSession(const Options& options, Socket client, double limit_secs) {
  static int number = 0;
  const double secs =
      limit_secs > 0 && limit_secs < options.session_secs ? limit_secs : options.session_secs;
  const Clock::time_point started = Clock::now();
  const std::string folder = NewFolder(options);
  const pid_t child = fork();
  if (child == 0) BecomeSession(options, std::move(client), secs, folder);
  if (child < 0) throw WireError(std::string("fork: ") + std::strerror(errno));
  setpgid(child, child);
  const End end = Await(child, client, secs);
  kill(-child, SIGKILL);  // What it left behind.
  Remove(folder);
  Log("session " + std::to_string(++number) + " " + end.what + " after " +
      std::to_string(SecsSince(started)).substr(0, 5) + " s");
  if (!end.was_quiet) SendException(client, ForClient(options, end));
}

}  // namespace kope
