// SPDX-License-Identifier: Apache-2.0
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/TilingInterfaceImpl.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/TileUsingInterface.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/passes.h"
#include "mlir/tuned_config.h"

namespace kope {
namespace {

namespace linalg = mlir::linalg;

// The op within its new loops; nothing where it cannot be tiled so.
mlir::Operation* Tiled(mlir::Operation* op, const Sizes& sizes, const Sizes& order,
                       mlir::PatternRewriter& rewriter) {
  auto tileable = llvm::dyn_cast<mlir::TilingInterface>(op);
  if (!tileable) return nullptr;
  mlir::scf::SCFTilingOptions options;
  options.setTileSizes(mlir::getAsIndexOpFoldResult(op->getContext(), sizes));
  options.setInterchange(order);
  rewriter.setInsertionPoint(op);
  mlir::FailureOr<mlir::scf::SCFTilingResult> tiled =
      mlir::scf::tileUsingSCF(rewriter, tileable, options);
  if (mlir::failed(tiled) || tiled->tiledOps.empty()) return nullptr;
  rewriter.replaceOp(op, tiled->replacements);
  return tiled->tiledOps.back();
}

template <typename From, typename Pattern>
mlir::Operation* Downscaled(mlir::Operation* op, mlir::PatternRewriter& rewriter) {
  auto window = llvm::dyn_cast<From>(op);
  if (!window) return op;
  rewriter.setInsertionPoint(op);
  auto row = Pattern(op->getContext()).returningMatchAndRewrite(window, rewriter);
  return mlir::succeeded(row) ? row->getOperation() : op;
}

// Windows one row high as one-dimensional ones, which is what can be vectorised.
mlir::Operation* AsRow(mlir::Operation* op, mlir::PatternRewriter& rewriter) {
  using Conv = linalg::DownscaleSizeOneWindowed2DConvolution<linalg::Conv2DNhwcHwcfOp,
                                                             linalg::Conv1DNwcWcfOp>;
  using Depthwise = linalg::DownscaleDepthwiseConv2DNhwcHwcOp;
  op = Downscaled<linalg::Conv2DNhwcHwcfOp, Conv>(op, rewriter);
  return Downscaled<linalg::DepthwiseConv2DNhwcHwcOp, Depthwise>(op, rewriter);
}

bool Vectorised(mlir::Operation* op, const Sizes& shape, mlir::PatternRewriter& rewriter) {
  rewriter.setInsertionPoint(op);
  llvm::SmallVector<bool> none_scalable(shape.size(), false);
  mlir::FailureOr<linalg::VectorizationResult> made =
      linalg::vectorize(rewriter, op, shape, none_scalable);
  if (mlir::failed(made)) return false;
  rewriter.replaceOp(op, made->replacements);
  return true;
}

class ApplyPass : public mlir::PassWrapper<ApplyPass, mlir::OperationPass<>> {
 public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ApplyPass)

  ApplyPass() = default;
  ApplyPass(const ApplyPass& other) : PassWrapper(other) {}

  llvm::StringRef getArgument() const override { return "kope-apply"; }
  llvm::StringRef getDescription() const override {
    return "Tile and vectorise linalg ops as their kope.config says";
  }

  void getDependentDialects(mlir::DialectRegistry& registry) const override {
    registry
        .insert<mlir::affine::AffineDialect, mlir::arith::ArithDialect, linalg::LinalgDialect,
                mlir::scf::SCFDialect, mlir::tensor::TensorDialect, mlir::vector::VectorDialect>();
    linalg::registerTilingInterfaceExternalModels(registry);
  }

  void runOnOperation() override {
    llvm::SmallVector<linalg::LinalgOp> configured;
    getOperation()->walk([&](linalg::LinalgOp op) {
      if (op->hasAttr(kConfigName)) configured.push_back(op);
    });
    for (linalg::LinalgOp op : configured) {
      if (!Expand(op)) signalPassFailure();
    }
  }

 private:
  // False where the attribute is malformed; what cannot be done is a warning, and the op stays.
  bool Expand(mlir::Operation* op) {
    std::optional<TunedConfig> config = Attached(op);
    if (!config) return false;
    op->removeAttr(kConfigName);
    mlir::PatternRewriter rewriter(op->getContext());
    for (size_t level = 0; level < config->tile_sizes.size(); ++level) {
      const Sizes& order = config->interchange.empty() ? Sizes() : config->interchange[level];
      mlir::Operation* tiled = Tiled(op, config->tile_sizes[level], order, rewriter);
      if (!tiled) {
        op->emitWarning() << "kope-apply: level " << level << " cannot be tiled";
        return true;
      }
      op = tiled;
    }
    op = AsRow(op, rewriter);
    mlir::Location where = op->getLoc();
    if (!Vectorised(op, config->vector, rewriter)) {
      mlir::emitWarning(where) << "kope-apply: the innermost tile cannot be vectorised";
    } else {
      ++num_vectorised_;
    }
    return true;
  }

  Statistic num_vectorised_{this, "vectorised", "Ops that became loops of vectors"};
};

}  // namespace

std::unique_ptr<mlir::Pass> MakeApplyPass() { return std::make_unique<ApplyPass>(); }

}  // namespace kope
