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
#include <string_view>

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

/*! \brief A field by its name, inherited ones included; throws where the type has none such. */
inline ffi::Any Field(ffi::AnyView node, std::string_view name) {
  const ffi::Object* object = node.cast<const ffi::Object*>();
  ffi::Any result;
  bool found = ffi::reflection::ForEachFieldInfoWithEarlyStop(
      TVMFFIGetTypeInfo(object->type_index()), [&](const TVMFFIFieldInfo* field) {
        if (std::string_view(field->name.data, field->name.size) != name) return false;
        result = ffi::reflection::FieldGetter(field)(object);
        return true;
      });
  if (!found) TVM_FFI_THROW(AttributeError) << TypeKey(node) << " has no field '" << name << "'";
  return result;
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
