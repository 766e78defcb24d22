// SPDX-License-Identifier: Apache-2.0
#include "mlir/experience_file.h"
#include "mlir/passes.h"
#include "mlir/structural_key.h"

namespace kope {
namespace {

class AnnotatePass : public mlir::PassWrapper<AnnotatePass, mlir::OperationPass<>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AnnotatePass)

  AnnotatePass() = default;
  AnnotatePass(const AnnotatePass& other) : PassWrapper(other) {}

  llvm::StringRef getArgument() const override { return "kope-annotate"; }
  llvm::StringRef getDescription() const override {
    return "Attach tuned tile sizes to the linalg ops that there is experience with";
  }

  // No pass of its own run sees the file change: it is read once.
  mlir::LogicalResult initialize(mlir::MLIRContext* context) override {
    auto found = ReadExperience(experience_);
    if (!found) {
      return mlir::emitError(mlir::UnknownLoc::get(context))
             << "kope-annotate{experience=FILE}: " << llvm::toString(found.takeError());
    }
    known_ = std::move(*found);
    return mlir::success();
  }

  void runOnOperation() override {
    getOperation()->walk([&](mlir::linalg::LinalgOp op) {
      auto found = known_.find(StructuralKey(op));
      if (found == known_.end()) return;
      Attach(found->second, op);
      ++num_annotated_;
    });
  }

 private:
  Option<std::string> experience_{
      *this, "experience", llvm::cl::desc("The JSON file that `kope mlir experience` wrote")};
  Statistic num_annotated_{this, "annotated", "Ops that there is experience with"};
  std::map<std::string, TunedConfig> known_;
};

}  // namespace

std::unique_ptr<mlir::Pass> MakeAnnotatePass() { return std::make_unique<AnnotatePass>(); }

}  // namespace kope
