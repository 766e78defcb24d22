// SPDX-License-Identifier: Apache-2.0
// Reads TVM's IR nodes by type key and field name: the wheel ships no compiler headers, and
// tvm-ffi's reflection keeps this library independent of TVM's C++ ABI.
#ifndef KOPE_TIR_NODE_H_
#define KOPE_TIR_NODE_H_

#include <tvm/ffi/any.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/reflection/accessor.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>

namespace kope {

namespace ffi = ::tvm::ffi;

/*! \brief The type key of an object, empty for anything else. */
inline std::string_view TypeKey(ffi::AnyView value) {
  if (value.type_index() < ffi::TypeIndex::kTVMFFIStaticObjectBegin) return {};
  const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(value.type_index());
  return {info->type_key.data, info->type_key.size};
}

inline bool Is(ffi::AnyView value, std::string_view type_key) { return TypeKey(value) == type_key; }

/*! \brief Whether the value's type is `type_key` or derives from it. */
inline bool DerivesFrom(ffi::AnyView value, std::string_view type_key) {
  if (value.type_index() < ffi::TypeIndex::kTVMFFIStaticObjectBegin) return false;
  if (Is(value, type_key)) return true;
  const TVMFFITypeInfo* info = TVMFFIGetTypeInfo(value.type_index());
  for (int32_t i = 1; i < info->type_depth; ++i) {
    const TVMFFIByteArray& key = info->type_ancestors[i]->type_key;
    if (std::string_view(key.data, key.size) == type_key) return true;
  }
  return false;
}

/*! \brief What reflection knows of a field, inherited ones included; null where there is none. */
inline const TVMFFIFieldInfo* FindField(int32_t type_index, std::string_view name) {
  const TVMFFIFieldInfo* found = nullptr;
  ffi::reflection::ForEachFieldInfoWithEarlyStop(
      TVMFFIGetTypeInfo(type_index), [&](const TVMFFIFieldInfo* field) {
        if (std::string_view(field->name.data, field->name.size) != name) return false;
        found = field;
        return true;
      });
  return found;
}

/*! \brief A field by its name; throws where the type has none such. */
inline ffi::Any Field(ffi::AnyView node, std::string_view name) {
  // Field names are literals: their address is a cheap key, and the name is compared all the same.
  struct Key {
    int32_t type_index;
    const char* name;
    bool operator==(const Key& other) const {
      return type_index == other.type_index && name == other.name;
    }
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return std::hash<const char*>()(key.name) ^ (static_cast<size_t>(key.type_index) << 20);
    }
  };
  thread_local std::unordered_map<Key, const TVMFFIFieldInfo*, Hash> known;
  const ffi::Object* object = node.cast<const ffi::Object*>();
  const TVMFFIFieldInfo*& field = known[{object->type_index(), name.data()}];
  if (field == nullptr || std::string_view(field->name.data, field->name.size) != name) {
    field = FindField(object->type_index(), name);
  }
  if (field == nullptr) {
    TVM_FFI_THROW(AttributeError) << TypeKey(node) << " has no field '" << name << "'";
  }
  return ffi::reflection::FieldGetter(field)(object);
}

inline ffi::Array<ffi::Any> Items(ffi::AnyView node, std::string_view name) {
  return Field(node, name).cast<ffi::Array<ffi::Any>>();
}

/*! \brief Identity of a node; valid while the function that holds it lives. */
inline const ffi::Object* Id(ffi::AnyView node) { return node.cast<const ffi::Object*>(); }

/*! \brief The value of an integer constant, or `symbolic` where it is none. */
inline int64_t ConstantOr(ffi::AnyView expr, int64_t symbolic) {
  return Is(expr, "ir.IntImm") ? Field(expr, "value").cast<int64_t>() : symbolic;
}

}  // namespace kope

#endif  // KOPE_TIR_NODE_H_
