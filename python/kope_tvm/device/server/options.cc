// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>

namespace kope {
namespace {

const char kUsage[] =
    "kope-server --key KEY --tracker HOST:PORT [--host ADDRESS] [--port N] [--port-end N]\n"
    "            [--address NAME] [--cores 0-3,6] [--session-secs N] [--memory-bytes N]\n"
    "            [--file-bytes N] [--work-dir DIR] [--linker CC] [--timer LIB.so] [--emulated]\n"
    "            [--until-stdin-ends]\n"
    "kope-server --version\n";

uint64_t Number(const std::string& text) {
  size_t used = 0;
  const unsigned long long number = std::stoull(text, &used);
  if (used != text.size()) throw std::invalid_argument(text);
  return number;
}

/// "0-3,6" as 0, 1, 2, 3, 6.
std::vector<int> Cores(const std::string& text) {
  std::vector<int> cores;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const size_t dash = part.find('-');
    const int first = static_cast<int>(Number(part.substr(0, dash)));
    const int last =
        dash == std::string::npos ? first : static_cast<int>(Number(part.substr(dash + 1)));
    for (int core = first; core <= last; ++core) cores.push_back(core);
    begin = end + 1;
  }
  if (cores.empty()) throw std::invalid_argument(text);
  return cores;
}

void SetTracker(Options* options, const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) throw std::invalid_argument(text);
  options->tracker_host = text.substr(0, colon);
  options->tracker_port = static_cast<int>(Number(text.substr(colon + 1)));
}

[[noreturn]] void Refuse(const std::string& why) {
  std::fprintf(stderr, "kope-server: %s\n%s", why.c_str(), kUsage);
  std::exit(2);
}

}  // namespace

Options ParseOptions(int argc, char** argv) {
  Options options;
  using Set = std::function<void(const std::string&)>;
  const std::map<std::string, Set> setters = {
      {"--key", [&](const std::string& text) { options.key = text; }},
      {"--tracker", [&](const std::string& text) { SetTracker(&options, text); }},
      {"--host", [&](const std::string& text) { options.host = text; }},
      {"--port", [&](const std::string& text) { options.port = int(Number(text)); }},
      {"--port-end", [&](const std::string& text) { options.port_end = int(Number(text)); }},
      {"--address", [&](const std::string& text) { options.address = text; }},
      {"--cores", [&](const std::string& text) { options.cores = Cores(text); }},
      {"--session-secs",
       [&](const std::string& text) { options.session_secs = int(Number(text)); }},
      {"--memory-bytes", [&](const std::string& text) { options.memory_bytes = Number(text); }},
      {"--file-bytes", [&](const std::string& text) { options.file_bytes = Number(text); }},
      {"--work-dir", [&](const std::string& text) { options.work_dir = text; }},
      {"--linker", [&](const std::string& text) { options.linker = text; }},
      {"--timer", [&](const std::string& text) { options.timer = text; }},
  };
  const std::map<std::string, bool*> flags = {
      {"--emulated", &options.emulated},
      {"--until-stdin-ends", &options.until_stdin_ends},
      {"--version", &options.version},
  };
  for (int at = 1; at < argc; ++at) {
    const std::string name = argv[at];
    const auto flag = flags.find(name);
    if (flag != flags.end()) {
      *flag->second = true;
      continue;
    }
    const auto found = setters.find(name);
    if (found == setters.end()) Refuse("no option " + name);
    if (++at == argc) Refuse(name + " lacks its value");
    try {
      found->second(argv[at]);
    } catch (const std::exception&) {
      Refuse(name + " cannot be " + argv[at]);
    }
  }
  if (!options.version && (options.key.empty() || options.tracker_host.empty())) {
    Refuse("--key and --tracker are needed");
  }
  return options;
}

}  // namespace kope
