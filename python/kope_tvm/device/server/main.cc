// SPDX-License-Identifier: Apache-2.0
// TVM's RPC server for a board: one process a session, so that a candidate takes nothing with it.
#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "board.h"
#include "log.h"
#include "options.h"
#include "session.h"
#include "tracker.h"
#include "wire.h"

namespace kope {
namespace {

constexpr int kHelloSecs = 5;
constexpr int kRegisterMillis = 2000;
constexpr int kRetryMillis = 500;
constexpr size_t kMaxKeyBytes = 4096;

/// The client's own limit in secs, 0 for none; -1 where it came for another key.
double Greet(const Socket& client, const Options& options, const std::string& match_key) {
  client.SetTimeout(kHelloSecs);
  if (client.RecvInt() != kRpcMagic) return -1;
  std::istringstream words(client.RecvText(kMaxKeyBytes));
  std::string word;
  words >> word;
  if (match_key.empty() || word != "client:" + match_key) {
    client.SendInt(kRpcMismatch);
    return -1;
  }
  double limit_secs = 0;
  const std::string limit = "-timeout=";
  while (words >> word) {
    if (word.rfind(limit, 0) == 0) limit_secs = std::atof(word.c_str() + limit.size());
  }
  client.SendInt(kRpcMagic);
  client.SendText("server:" + options.key);
  client.SetTimeout(0);
  client.KeepAlive();
  return limit_secs;
}

void ServeNext(const Socket& listener, const Options& options, Tracker* tracker) {
  Socket client(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client.is_open()) return;
  const double limit_secs = Greet(client, options, tracker->match_key());
  if (limit_secs < 0) {
    Log("a client came with another key");
    return;
  }
  tracker->Used();
  ServeSession(options, std::move(client), limit_secs);
}

void Serve(const Options& options) {
  int port = options.port;
  const Socket listener = Listen(options.host, &port, options.port_end);
  Log("listening on " + options.host + ":" + std::to_string(port) + ", " + Info(options));
  Tracker tracker(options, port);
  for (;;) {
    const bool has_place = tracker.Register();
    pollfd waiting[] = {{listener.fd(), POLLIN, 0}, {STDIN_FILENO, 0, 0}};
    const int num_waiting = options.until_stdin_ends ? 2 : 1;
    if (poll(waiting, num_waiting, has_place ? kRegisterMillis : kRetryMillis) <= 0) continue;
    if (waiting[1].revents & POLLHUP) return;
    try {
      ServeNext(listener, options, &tracker);
    } catch (const std::exception& error) {
      Log(std::string("lost a client: ") + error.what());
    }
  }
}

int Main(int argc, char** argv) {
  const Options options = ParseOptions(argc, argv);
  PinTo(options.cores);
  if (options.version) {
    std::puts(Info(options).c_str());
    return 0;
  }
  NameLog(options.key);
  std::signal(SIGPIPE, SIG_IGN);
  if (!options.cores.empty()) {
    setenv("TVM_NUM_THREADS", std::to_string(options.cores.size()).c_str(), 1);
  }
  RegisterFunctions(options);
  if (!options.timer.empty() && !dlopen(options.timer.c_str(), RTLD_NOW | RTLD_GLOBAL)) {
    Log(std::string("no timer: ") + dlerror());
    return 1;
  }
  try {
    Serve(options);
  } catch (const std::exception& error) {
    Log(error.what());
  }
  return 1;
}

}  // namespace
}  // namespace kope

int main(int argc, char** argv) { return kope::Main(argc, argv); }
