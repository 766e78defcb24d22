// SPDX-License-Identifier: Apache-2.0
#ifndef KOPE_SERVER_TRACKER_H_
#define KOPE_SERVER_TRACKER_H_

#include <string>

#include "options.h"
#include "wire.h"

namespace kope {

/// The server's place at the tracker, which may go away and come back at any time.
class Tracker {
 public:
  Tracker(const Options& options, int port) : options_(options), port_(port) {}

  /// Have exactly one unused match key there; at most once in `kPeriodSecs`. True where it has.
  bool Register();
  /// The match key was used: the next `Register` gives a new one.
  void Used();
  const std::string& match_key() const { return match_key_; }

 private:
  static constexpr int kPeriodSecs = 2;
  /// A client that asked for the key and did not come within so many periods has died.
  static constexpr int kUnclaimedPeriods = 3;

  void Reconnect();
  void Put();
  bool IsPending();
  std::string Ask(const std::string& json);

  const Options& options_;
  int port_;
  Socket socket_;
  std::string match_key_;
  int num_unclaimed_ = 0;
  bool was_lost_ = false;
};

}  // namespace kope

#endif  // KOPE_SERVER_TRACKER_H_
