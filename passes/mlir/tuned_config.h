// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace kope {

using Sizes = std::vector<int64_t>;

// How one op is tuned, as its attribute `kope.config` says it.
struct TunedConfig {
  // The outermost level first; a size a dimension, 0 leaves one whole.
  std::vector<Sizes> tile_sizes;
  // The order of each level's loops; empty for that of the dimensions.
  std::vector<Sizes> interchange;
  // The shape that is vectorised; empty for the innermost tile.
  Sizes vector;
};

inline constexpr char kConfigName[] = "kope.config";

void Attach(const TunedConfig& config, mlir::Operation* op);

// What is attached; nothing, and an error on the op, where that is no such attribute.
std::optional<TunedConfig> Attached(mlir::Operation* op);

}  // namespace kope
