// SPDX-License-Identifier: Apache-2.0
// What the board says of itself.
#ifndef KOPE_SERVER_BOARD_H_
#define KOPE_SERVER_BOARD_H_

#include <string>

#include "options.h"

namespace kope {

/// Length of a vector register of the core this runs on; 0 without a vector unit.
int VlenBits();

/// Put this process, and the threads it will have, on the cores; a line in the log where it cannot.
void PinTo(const std::vector<int>& cores);

/// Versions, vector length, cores and process as one JSON object.
std::string Info(const Options& options);

/// Text files of /proc and /sys that match a pattern, as a JSON object of path and content.
std::string Files(const std::string& pattern);

/// What the kernel says of a core's extensions, as a JSON list of pairs (riscv_hwprobe(2)); empty
/// where it has no such call.
std::string HardwareProbe();

}  // namespace kope

#endif  // KOPE_SERVER_BOARD_H_
