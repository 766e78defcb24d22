// SPDX-License-Identifier: Apache-2.0
#include "mlir/tuned_config.h"

#include "mlir/IR/Builders.h"

namespace kope {
namespace {

mlir::ArrayAttr Levels(const std::vector<Sizes>& levels, mlir::Builder& builder) {
  std::vector<mlir::Attribute> found;
  for (const Sizes& sizes : levels) found.push_back(builder.getDenseI64ArrayAttr(sizes));
  return builder.getArrayAttr(found);
}

bool Read(mlir::Attribute attribute, Sizes& sizes) {
  auto array = llvm::dyn_cast_or_null<mlir::DenseI64ArrayAttr>(attribute);
  if (!array) return false;
  sizes.assign(array.asArrayRef().begin(), array.asArrayRef().end());
  return true;
}

bool Read(mlir::Attribute attribute, std::vector<Sizes>& levels) {
  auto array = llvm::dyn_cast_or_null<mlir::ArrayAttr>(attribute);
  if (!array) return false;
  for (mlir::Attribute each : array) {
    if (!Read(each, levels.emplace_back())) return false;
  }
  return true;
}

}  // namespace

void Attach(const TunedConfig& config, mlir::Operation* op) {
  mlir::Builder builder(op->getContext());
  mlir::NamedAttrList parts;
  parts.set("tile_sizes", Levels(config.tile_sizes, builder));
  if (!config.interchange.empty()) parts.set("interchange", Levels(config.interchange, builder));
  if (!config.vector.empty()) parts.set("vector", builder.getDenseI64ArrayAttr(config.vector));
  op->setAttr(kConfigName, parts.getDictionary(op->getContext()));
}

std::optional<TunedConfig> Attached(mlir::Operation* op) {
  auto parts = op->getAttrOfType<mlir::DictionaryAttr>(kConfigName);
  TunedConfig config;
  bool is_read = parts && Read(parts.get("tile_sizes"), config.tile_sizes);
  if (is_read && parts.contains("interchange")) {
    is_read = Read(parts.get("interchange"), config.interchange) &&
              config.interchange.size() == config.tile_sizes.size();
  }
  if (is_read && parts.contains("vector")) is_read = Read(parts.get("vector"), config.vector);
  if (is_read) return config;
  op->emitOpError() << kConfigName << " is " << op->getAttr(kConfigName)
                    << "; expected {tile_sizes = [array<i64: ...>, ...]}, and interchange of as "
                       "many levels or a vector beside it";
  return std::nullopt;
}

}  // namespace kope
