// SPDX-License-Identifier: Apache-2.0
// Every global function of the server, in one place.
#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/function.h>

#include <string>

#include "board.h"
#include "library.h"
#include "log.h"
#include "session.h"
#include "versions.h"

namespace kope {
namespace {

using tvm::ffi::Function;

/// Throws, and says so in the log, where the client's TVM is not the one this server was built of.
std::string Hello(const Options& options, const std::string& tvm, const std::string& ffi) {
  if (tvm != kTvmVersion || ffi != kFfiVersion) {
    const std::string text = std::string("E_VERSION this server has tvm ") + kTvmVersion +
                             " and tvm-ffi " + kFfiVersion + ", the client tvm " + tvm +
                             " and tvm-ffi " + ffi +
                             "; run `kope device build` with the client's and copy the result here";
    Log("refused a client: " + text);
    TVM_FFI_THROW(ValueError) << text;
  }
  return Info(options);
}

template <typename F>
void Set(const char* name, F function) {
  Function::SetGlobal(name, Function::FromTyped(function), /*override=*/true);
}

}  // namespace

void RegisterFunctions(const Options& options) {
  Set("tvm.rpc.server.workpath", [](const std::string& name) { return WorkPath(name); });
  Set("tvm.rpc.server.upload",
      [](const std::string& name, const std::string& content) { Upload(name, content); });
  Set("tvm.rpc.server.load_module",
      [options](const std::string& name) { return LoadLibrary(options, name); });
  Set("kope.server.info", [options]() { return Info(options); });
  Set("kope.server.hello", [options](const std::string& tvm, const std::string& ffi) {
    return Hello(options, tvm, ffi);
  });
  Set("kope.server.files", [](const std::string& pattern) { return Files(pattern); });
  Set("kope.server.hwprobe", []() { return HardwareProbe(); });
}

}  // namespace kope
