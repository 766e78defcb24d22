// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "mlir/Pass/Pass.h"

namespace kope {

// -kope-annotate: attaches what is known of each linalg op as `kope.config`.
std::unique_ptr<mlir::Pass> MakeAnnotatePass();

// -kope-apply: tiles and vectorises each linalg op as its `kope.config` says.
std::unique_ptr<mlir::Pass> MakeApplyPass();

}  // namespace kope
