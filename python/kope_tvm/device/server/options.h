// SPDX-License-Identifier: Apache-2.0
#ifndef KOPE_SERVER_OPTIONS_H_
#define KOPE_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kope {

/// What the server was started with.
struct Options {
  std::string key;
  std::string tracker_host;
  int tracker_port = 0;
  std::string host = "0.0.0.0";
  /// The first free one from `port` up to `port_end` is taken.
  int port = 9090;
  int port_end = 9199;
  /// The address that the tracker gives to clients; empty: the one it sees.
  std::string address;
  /// CPUs of one core class; empty: all that this process may use.
  std::vector<int> cores;
  /// No session lasts longer, whatever its client asks for.
  int session_secs = 600;
  /// Of a session, beyond what the server itself has.
  uint64_t memory_bytes = uint64_t(2) << 30;
  /// The longest file a session may write.
  uint64_t file_bytes = uint64_t(256) << 20;
  std::string work_dir = "/tmp";
  /// Links the objects of an uploaded archive.
  std::string linker = "cc";
  /// A library loaded before the first session, for what it registers.
  std::string timer;
  /// Runs under an emulator: its wall time means nothing.
  bool emulated = false;
  bool until_stdin_ends = false;
  bool version = false;
};

/// Exits with 2 and a line on stderr where an option is wrong.
Options ParseOptions(int argc, char** argv);

}  // namespace kope

#endif  // KOPE_SERVER_OPTIONS_H_
