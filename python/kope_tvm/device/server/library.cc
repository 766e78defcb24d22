// SPDX-License-Identifier: Apache-2.0
#include "library.h"

#include <sys/wait.h>
#include <tvm/ffi/error.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "board.h"
#include "elf_file.h"

namespace kope {
namespace {

/// What any vector extension asks for.
constexpr int kShortestVlenBits = 32;

bool EndsWith(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

/// Runs to the end of a shell command; the session's limits hold for it.
void RunCommand(const std::string& command) {
  const int status = std::system(command.c_str());
  if (status != 0) {
    TVM_FFI_THROW(RuntimeError) << "`" << command << "` ended with status "
                                << (WIFEXITED(status) ? WEXITSTATUS(status) : status)
                                << "; upload a linked .so, or give the server a --linker";
  }
}

/// The objects of an archive as one library.
std::string Linked(const Options& options, const std::string& archive) {
  const std::string library = archive + ".so", folder = archive + ".objects";
  RunCommand("mkdir -p '" + folder + "' && tar -xf '" + archive + "' -C '" + folder + "'");
  RunCommand(options.linker + " -shared -fPIC -o '" + library + "' '" + folder + "'/*.o");
  return library;
}

void CheckVectors(const std::string& path) {
  const int required = RequiredVlenBits(ArchOf(path));
  const int vlen = VlenBits();
  if (required <= vlen) return;
  TVM_FFI_THROW(ValueError) << "E_VLEN built for vectors of at least " << required << " bits (zvl"
                            << required << "b); this core has "
                            << (vlen ? std::to_string(vlen) + " bits" : "no vector unit")
                            << ": it would compute wrong values; build for this board's target";
}

}  // namespace

std::string WorkPath(const std::string& name) {
  const std::string last = name.substr(name.rfind('/') + 1);
  const bool is_plain =
      !last.empty() && last != "." && last != ".." && last.find('\'') == std::string::npos;
  // No name is the folder itself: the stock RPCRunner removes it last.
  if (!is_plain && !name.empty()) TVM_FFI_THROW(ValueError) << "not a file name: " << name;
  char folder[4096];
  if (!getcwd(folder, sizeof(folder))) TVM_FFI_THROW(RuntimeError) << std::strerror(errno);
  return std::string(folder) + "/" + last;
}

void Upload(const std::string& name, const std::string& content) {
  const std::string path = WorkPath(name);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  size_t written = 0;
  int error = errno;
  if (file) {
    written = std::fwrite(content.data(), 1, content.size(), file);
    error = errno;
    if (std::fclose(file) != 0) {
      error = errno;
      written = 0;
    }
  }
  if (!file || written != content.size()) {
    std::remove(path.c_str());
    TVM_FFI_THROW(RuntimeError) << "E_DISK cannot write " << content.size() << " bytes to " << path
                                << ": " << std::strerror(error);
  }
}

int RequiredVlenBits(const std::string& arch) {
  int bits = 0;
  for (size_t at = arch.find("_zv"); at != std::string::npos; at = arch.find("_zv", at + 1)) {
    const bool is_length = arch.compare(at, 4, "_zvl") == 0;
    bits = std::max(bits, is_length ? std::atoi(arch.c_str() + at + 4) : kShortestVlenBits);
  }
  return bits;
}

tvm::ffi::Module LoadLibrary(const Options& options, const std::string& name) {
  std::string path = WorkPath(name);
  if (EndsWith(path, ".tar")) path = Linked(options, path);
  CheckVectors(path);
  return tvm::ffi::Module::LoadFromFile(path);
}

}  // namespace kope
