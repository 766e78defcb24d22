// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace kope {

// What two linalg ops have in common that the same tiles suit: the name, the ops of the body, the
// iterators, the extents, the element types and the indexing maps. kope_tvm.mlir.experience_file
// spells the same key in Python.
std::string StructuralKey(mlir::linalg::LinalgOp op);

}  // namespace kope
