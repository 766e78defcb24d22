// SPDX-License-Identifier: Apache-2.0
// The plugin's only symbol. `mlir-opt --load-pass-plugin` looks for it, and so does
// kope_tvm.mlir.native, which has MLIR's Python bindings know the passes.
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "mlir/passes.h"

namespace {

void RegisterPasses() {
  mlir::registerPass(kope::MakeAnnotatePass);
  mlir::registerPass(kope::MakeApplyPass);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) mlir::PassPluginLibraryInfo
mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "kope", LLVM_VERSION_STRING, RegisterPasses};
}
