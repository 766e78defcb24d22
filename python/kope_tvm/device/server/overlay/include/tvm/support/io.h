// SPDX-License-Identifier: Apache-2.0
// The byte stream that TVM's runtime reads and writes its records through.
#ifndef TVM_SUPPORT_IO_H_
#define TVM_SUPPORT_IO_H_

#include <cstddef>
#include <cstdint>

namespace tvm {
namespace support {

template <typename T>
struct Serializer;

class Stream {
 public:
  virtual ~Stream() = default;

  /// The number of bytes read: fewer than `size` at the end.
  virtual size_t Read(void* data, size_t size) = 0;
  virtual size_t Write(const void* data, size_t size) = 0;

  template <typename T>
  void Write(const T& value);
  template <typename T>
  bool Read(T* value);
  template <typename T>
  void WriteArray(const T* values, size_t count);
  template <typename T>
  bool ReadArray(T* values, size_t count);
};

}  // namespace support
}  // namespace tvm

#include <tvm/support/serializer.h>

#endif  // TVM_SUPPORT_IO_H_
