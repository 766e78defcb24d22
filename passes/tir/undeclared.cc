// SPDX-License-Identifier: Apache-2.0
// Buffers that a block uses though its `reads` and `writes` do not name them.
#include <map>

#include "tir/static_checks.h"
#include "tir/values.h"

namespace kope {
namespace {

using Buffers = std::map<const ffi::Object*, std::string>;

struct Used {
  Buffers loaded;
  Buffers stored;
};

std::string Name(AnyView buffer) { return std::string(Field(buffer, "name").cast<ffi::String>()); }

class Collector {
 public:
  // What the statements use of buffers that are not made among them.
  Used Statement(AnyView root) {
    Used used;
    Walk(root, [&](AnyView node) {
      std::string_view key = TypeKey(node);
      if (key == "s_tir.SBlock") {
        Merge(Block(node), &used);
        return false;
      }
      if (key == "tirx.BufferStore") {
        Any buffer = Field(node, "buffer");
        used.stored.emplace(Id(buffer), Name(buffer));
      } else if (key == "ir.TensorLoad") {
        Any buffer = Field(node, "source");
        used.loaded.emplace(Id(buffer), Name(buffer));
      }
      return key != "ir.Var";
    });
    return used;
  }

  std::set<std::pair<std::string, std::string>> found;

 private:
  Used Block(AnyView block) {
    Used used = Statement(Field(block, "body"));
    Any init = Field(block, "init");
    if (init != nullptr) Merge(Statement(init), &used);
    for (const Any& match : Items(block, "match_buffers")) Replace(match, &used);
    for (const Any& each : Items(block, "alloc_buffers")) {
      used.loaded.erase(Id(each));
      used.stored.erase(Id(each));
    }
    // The root and its like declare nothing: what they use is all there is.
    if (Items(block, "iter_vars").empty()) return used;
    std::set<const ffi::Object*> writes = Declared(block, "writes");
    std::set<const ffi::Object*> reads = Declared(block, "reads");
    reads.insert(writes.begin(), writes.end());
    Report(block, used.stored, writes);
    Report(block, used.loaded, reads);
    return used;
  }

  static std::set<const ffi::Object*> Declared(AnyView block, std::string_view field) {
    std::set<const ffi::Object*> buffers;
    for (const Any& region : Items(block, field)) buffers.insert(Id(Field(region, "source")));
    return buffers;
  }

  static void Replace(AnyView match, Used* used) {
    const ffi::Object* view = Id(Field(match, "buffer"));
    Any source = Field(Field(match, "source"), "source");
    for (Buffers* buffers : {&used->loaded, &used->stored}) {
      if (buffers->erase(view) != 0) buffers->emplace(Id(source), Name(source));
    }
  }

  static void Merge(const Used& inner, Used* used) {
    used->loaded.insert(inner.loaded.begin(), inner.loaded.end());
    used->stored.insert(inner.stored.begin(), inner.stored.end());
  }

  void Report(AnyView block, const Buffers& used, const std::set<const ffi::Object*>& declared) {
    for (const auto& [buffer, name] : used) {
      if (declared.count(buffer) != 0) continue;
      found.emplace(std::string(Field(block, "name_hint").cast<ffi::String>()), name);
    }
  }
};

}  // namespace

ffi::Array<UndeclaredUse> UndeclaredUses(Any prim_func) {
  Collector collector;
  collector.Statement(Field(prim_func, "body"));
  ffi::Array<UndeclaredUse> uses;
  for (const auto& [block, buffer] : collector.found) uses.push_back(UndeclaredUse(block, buffer));
  return uses;
}

}  // namespace kope
