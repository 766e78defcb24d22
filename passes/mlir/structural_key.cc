// SPDX-License-Identifier: Apache-2.0
#include "mlir/structural_key.h"

#include "llvm/Support/raw_ostream.h"

namespace kope {
namespace {

void WriteBody(mlir::linalg::LinalgOp op, llvm::raw_ostream& out) {
  bool is_first = true;
  for (mlir::Operation& inner : op.getBlock()->without_terminator()) {
    if (!is_first) out << ',';
    out << inner.getName().getStringRef();
    is_first = false;
  }
}

void WriteTypes(mlir::linalg::LinalgOp op, llvm::raw_ostream& out) {
  llvm::interleave(
      op->getOperandTypes(), [&](mlir::Type type) { out << mlir::getElementTypeOrSelf(type); },
      [&] { out << ','; });
}

}  // namespace

std::string StructuralKey(mlir::linalg::LinalgOp op) {
  std::string key;
  llvm::raw_string_ostream out(key);
  out << op->getName().getStringRef() << '(';
  WriteBody(op, out);
  out << ") ";
  for (mlir::utils::IteratorType kind : op.getIteratorTypesArray()) {
    out << (kind == mlir::utils::IteratorType::parallel ? 'p' : 'r');
  }
  out << ' ';
  llvm::interleave(op.getStaticLoopRanges(), out, "x");
  out << ' ';
  WriteTypes(op, out);
  for (mlir::AffineMap map : op.getIndexingMapsArray()) out << "; " << map;
  return key;
}

}  // namespace kope
