// SPDX-License-Identifier: Apache-2.0
#include "elf_file.h"

#include <elf.h>
#include <tvm/ffi/error.h>

#include <cstring>
#include <fstream>
#include <iterator>

namespace kope {
namespace {

constexpr uint32_t kAttributesSection = 0x70000003;
constexpr uint64_t kFileAttributes = 1;
constexpr uint64_t kArchTag = 5;

/// Bytes read from front to back; reads beyond the end are zeros and set `failed`.
class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}

  bool at_end() const { return failed_ || at_ >= bytes_.size(); }
  void Skip(size_t size) { at_ += size; }

  uint32_t Word() {
    uint32_t value = 0;
    if (at_ + sizeof(value) > bytes_.size()) {
      failed_ = true;
    } else {
      std::memcpy(&value, bytes_.data() + at_, sizeof(value));
      at_ += sizeof(value);
    }
    return value;
  }

  uint64_t Uleb() {
    uint64_t value = 0;
    for (int shift = 0; !at_end() && shift < 64; shift += 7) {
      const unsigned char byte = bytes_[at_++];
      value |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80)) break;
    }
    return value;
  }

  std::string Text() {
    const size_t end = std::min(bytes_.find('\0', at_), bytes_.size());
    std::string text = at_ < end ? bytes_.substr(at_, end - at_) : "";
    at_ = end + 1;
    return text;
  }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
  bool failed_ = false;
};

/// Of the RISC-V psABI's attributes: odd tags have text, even ones a number.
std::string ArchAmong(const std::string& attributes) {
  Reader reader(attributes);
  reader.Skip(1);  // the format's version
  reader.Word();
  if (reader.Text() != "riscv" || reader.Uleb() != kFileAttributes) return "";
  reader.Word();
  while (!reader.at_end()) {
    const uint64_t tag = reader.Uleb();
    if (tag % 2 == 0) {
      reader.Uleb();
    } else if (std::string text = reader.Text(); tag == kArchTag) {
      return text;
    }
  }
  return "";
}

template <typename T>
bool Take(const std::string& bytes, uint64_t at, T* value) {
  if (at > bytes.size() || bytes.size() - at < sizeof(T)) return false;
  std::memcpy(value, bytes.data() + at, sizeof(T));
  return true;
}

}  // namespace

std::string ArchOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  Elf64_Ehdr header;
  const bool is_ours = Take(bytes, 0, &header) &&
                       std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
                       header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == EM_RISCV;
  if (!is_ours)
    TVM_FFI_THROW(ValueError) << "E_LIBRARY " << path << " is no 64-bit RISC-V ELF file";
  for (int at = 0; at < header.e_shnum; ++at) {
    Elf64_Shdr section;
    if (!Take(bytes, header.e_shoff + uint64_t(at) * header.e_shentsize, &section)) break;
    if (section.sh_type != kAttributesSection || section.sh_offset > bytes.size()) continue;
    const std::string arch = ArchAmong(bytes.substr(section.sh_offset, section.sh_size));
    if (!arch.empty()) return arch;
  }
  TVM_FFI_THROW(ValueError) << "E_LIBRARY " << path
                            << " does not say in .riscv.attributes what it was built for";
  TVM_FFI_UNREACHABLE();
}

}  // namespace kope
