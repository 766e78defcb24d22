// SPDX-License-Identifier: Apache-2.0
#ifndef KOPE_SERVER_ELF_FILE_H_
#define KOPE_SERVER_ELF_FILE_H_

#include <string>

namespace kope {

/// The architecture string in a RISC-V ELF file's attributes, such as "rv64i2p1_..._zvl256b1p0".
///
/// Throws ValueError where the file is no 64-bit RISC-V ELF file, or says nothing.
std::string ArchOf(const std::string& path);

}  // namespace kope

#endif  // KOPE_SERVER_ELF_FILE_H_
