// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "llvm/Support/Error.h"
#include "mlir/tuned_config.h"

namespace kope {

// The tuned configurations of `kope mlir experience`, by structural key.
llvm::Expected<std::map<std::string, TunedConfig>> ReadExperience(llvm::StringRef path);

}  // namespace kope
