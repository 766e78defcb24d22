// SPDX-License-Identifier: Apache-2.0
#include "tracker.h"

#include <tvm/ffi/extra/json.h>

#include <random>

#include "log.h"

namespace kope {
namespace {

namespace json = tvm::ffi::json;

/// Codes of the tracker's protocol.
enum TrackerCode : int { kPut = 3, kUpdateInfo = 5, kGetPendingMatchKeys = 7 };

constexpr size_t kMaxMessageBytes = 1 << 20;
constexpr int kAnswerSecs = 5;

std::string RandomKey(const std::string& key) {
  static std::mt19937_64 random{std::random_device{}()};
  return key + ":0." + std::to_string(random());
}

json::Value AddressOf(const Options& options) {
  return options.address.empty() ? json::Value(nullptr)
                                 : json::Value(tvm::ffi::String(options.address));
}

}  // namespace

bool Tracker::Register() {
  try {
    if (!socket_.is_open()) Reconnect();
    if (match_key_.empty()) {
      Put();
    } else if (IsPending()) {
      num_unclaimed_ = 0;
    } else if (++num_unclaimed_ > kUnclaimedPeriods) {
      Put();
    }
    return true;
  } catch (const WireError& error) {
    if (!was_lost_) {
      Log("no tracker at " + options_.tracker_host + ":" + std::to_string(options_.tracker_port) +
          " (" + error.what() + "); asking again until there is one");
    }
    was_lost_ = true;
    socket_.Close();
    match_key_.clear();
    return false;
  }
}

void Tracker::Used() { match_key_.clear(); }

void Tracker::Reconnect() {
  socket_ = Connect(options_.tracker_host, options_.tracker_port, kAnswerSecs);
  socket_.SendInt(kTrackerMagic);
  if (socket_.RecvInt() != kTrackerMagic) throw WireError("what listens there is no tracker");
  json::Object info;
  info.Set(tvm::ffi::String("key"), tvm::ffi::String("server:" + options_.key));
  info.Set(tvm::ffi::String("addr"), json::Array{AddressOf(options_), int64_t(port_)});
  Ask(json::Stringify(json::Array{int64_t(kUpdateInfo), info}));
  match_key_.clear();
  was_lost_ = false;
  Log("registered with the tracker at " + options_.tracker_host + ":" +
      std::to_string(options_.tracker_port));
}

void Tracker::Put() {
  const std::string key = RandomKey(options_.key);
  const json::Array place{int64_t(port_), tvm::ffi::String(key)};
  Ask(json::Stringify(
      json::Array{int64_t(kPut), tvm::ffi::String(options_.key), place, AddressOf(options_)}));
  match_key_ = key;
  num_unclaimed_ = 0;
}

bool Tracker::IsPending() {
  const std::string keys = Ask(json::Stringify(json::Array{int64_t(kGetPendingMatchKeys)}));
  return keys.find('"' + match_key_ + '"') != std::string::npos;
}

std::string Tracker::Ask(const std::string& json) {
  socket_.SendText(json);
  return socket_.RecvText(kMaxMessageBytes);
}

}  // namespace kope
