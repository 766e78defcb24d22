// SPDX-License-Identifier: Apache-2.0
#include "log.h"

#include <cstdio>
#include <ctime>

namespace kope {
namespace {

std::string name = "kope-server";

}  // namespace

void NameLog(const std::string& board) { name = "kope-server " + board; }

void Log(const std::string& text) {
  char stamp[32];
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", localtime_r(&now, &parts));
  std::fprintf(stderr, "%s %s: %s\n", stamp, name.c_str(), text.c_str());
}

}  // namespace kope
