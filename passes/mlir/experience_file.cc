// SPDX-License-Identifier: Apache-2.0
#include "mlir/experience_file.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

namespace kope {

// LLVM's JSON finds these by the namespace of what they read into.
bool fromJSON(const llvm::json::Value& value, TunedConfig& config, llvm::json::Path path) {
  llvm::json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("tile_sizes", config.tile_sizes) &&
         mapper.mapOptional("interchange", config.interchange) &&
         mapper.mapOptional("vector", config.vector);
}

namespace {

struct File {
  int64_t version = 0;
  std::map<std::string, TunedConfig> ops;
};

bool fromJSON(const llvm::json::Value& value, File& file, llvm::json::Path path) {
  llvm::json::ObjectMapper mapper(value, path);
  return mapper && mapper.map("version", file.version) && mapper.map("ops", file.ops);
}

constexpr int64_t kVersion = 1;

}  // namespace

llvm::Expected<std::map<std::string, TunedConfig>> ReadExperience(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer) {
    return llvm::createStringError(buffer.getError(), "%s: cannot be read", path.str().c_str());
  }
  auto file = llvm::json::parse<File>((*buffer)->getBuffer(), "experience");
  if (!file) return file.takeError();
  if (file->version != kVersion) {
    return llvm::createStringError("%s: version %lld; this plugin reads version %lld",
                                   path.str().c_str(), static_cast<long long>(file->version),
                                   static_cast<long long>(kVersion));
  }
  return std::move(file->ops);
}

}  // namespace kope
