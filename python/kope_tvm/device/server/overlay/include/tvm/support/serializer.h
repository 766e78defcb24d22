// SPDX-License-Identifier: Apache-2.0
// How values lie in a stream: numbers as they are in memory (little-endian), a sequence as its
// length in 64 bits and its elements.
#ifndef TVM_SUPPORT_SERIALIZER_H_
#define TVM_SUPPORT_SERIALIZER_H_

#include <dlpack/dlpack.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/string.h>
#include <tvm/support/io.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tvm {
namespace support {

/// What is copied as it lies in memory.
template <typename T>
inline constexpr bool kIsPlain = std::is_arithmetic_v<T> || std::is_enum_v<T> ||
                                 std::is_same_v<T, DLDataType> || std::is_same_v<T, DLDevice>;

/// Records that write themselves.
template <typename T, typename = void>
inline constexpr bool kSavesItself = false;
template <typename T>
inline constexpr bool kSavesItself<
    T, std::void_t<decltype(std::declval<const T&>().Save(static_cast<Stream*>(nullptr)))>> = true;

template <typename T>
struct Serializer {
  static constexpr bool enabled = true;

  static void Write(Stream* stream, const T& value) {
    if constexpr (kIsPlain<T>) {
      stream->Write(static_cast<const void*>(&value), sizeof(T));
    } else {
      static_assert(kSavesItself<T>, "no way to write this type");
      value.Save(stream);
    }
  }

  static bool Read(Stream* stream, T* value) {
    if constexpr (kIsPlain<T>) {
      return stream->Read(static_cast<void*>(value), sizeof(T)) == sizeof(T);
    } else {
      return value->Load(stream);
    }
  }
};

template <>
struct Serializer<std::string> {
  static constexpr bool enabled = true;

  static void Write(Stream* stream, const std::string& value) {
    Serializer<uint64_t>::Write(stream, value.size());
    stream->Write(static_cast<const void*>(value.data()), value.size());
  }

  static bool Read(Stream* stream, std::string* value) {
    uint64_t size = 0;
    if (!Serializer<uint64_t>::Read(stream, &size)) return false;
    value->resize(size);
    return stream->Read(static_cast<void*>(value->data()), size) == size;
  }
};

template <>
struct Serializer<ffi::String> {
  static constexpr bool enabled = true;

  static void Write(Stream* stream, const ffi::String& value) {
    Serializer<std::string>::Write(stream, std::string(value.data(), value.size()));
  }

  static bool Read(Stream* stream, ffi::String* value) {
    std::string text;
    if (!Serializer<std::string>::Read(stream, &text)) return false;
    *value = ffi::String(std::move(text));
    return true;
  }
};

template <typename T>
struct Serializer<std::vector<T>> {
  static constexpr bool enabled = true;

  static void Write(Stream* stream, const std::vector<T>& values) {
    Serializer<uint64_t>::Write(stream, values.size());
    stream->WriteArray(values.data(), values.size());
  }

  static bool Read(Stream* stream, std::vector<T>* values) {
    uint64_t size = 0;
    if (!Serializer<uint64_t>::Read(stream, &size)) return false;
    values->resize(size);
    return stream->ReadArray(values->data(), size);
  }
};

template <typename T>
struct Serializer<ffi::Array<T>> {
  static constexpr bool enabled = true;

  static void Write(Stream* stream, const ffi::Array<T>& values) {
    Serializer<uint64_t>::Write(stream, values.size());
    for (const T& value : values) Serializer<T>::Write(stream, value);
  }

  static bool Read(Stream* stream, ffi::Array<T>* values) {
    uint64_t size = 0;
    if (!Serializer<uint64_t>::Read(stream, &size)) return false;
    values->clear();
    for (uint64_t i = 0; i < size; ++i) {
      T value;
      if (!Serializer<T>::Read(stream, &value)) return false;
      values->push_back(value);
    }
    return true;
  }
};

template <typename T>
void Stream::Write(const T& value) {
  Serializer<T>::Write(this, value);
}

template <typename T>
bool Stream::Read(T* value) {
  return Serializer<T>::Read(this, value);
}

template <typename T>
void Stream::WriteArray(const T* values, size_t count) {
  if constexpr (kIsPlain<T>) {
    Write(static_cast<const void*>(values), sizeof(T) * count);
  } else {
    for (size_t i = 0; i < count; ++i) Serializer<T>::Write(this, values[i]);
  }
}

template <typename T>
bool Stream::ReadArray(T* values, size_t count) {
  if constexpr (kIsPlain<T>) {
    return Read(static_cast<void*>(values), sizeof(T) * count) == sizeof(T) * count;
  } else {
    for (size_t i = 0; i < count; ++i) {
      if (!Serializer<T>::Read(this, values + i)) return false;
    }
    return true;
  }
}

}  // namespace support
}  // namespace tvm

#endif  // TVM_SUPPORT_SERIALIZER_H_
