// SPDX-License-Identifier: Apache-2.0
// The bytes between a connection and who reads or fills it, first in, first out.
#ifndef TVM_SUPPORT_RING_BUFFER_H_
#define TVM_SUPPORT_RING_BUFFER_H_

#include <tvm/ffi/error.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace tvm {
namespace support {

class RingBuffer {
 public:
  size_t bytes_available() const { return end_ - begin_; }

  /// Room for `size` bytes in all.
  void Reserve(size_t size) {
    if (size > bytes_available()) MakeRoom(size - bytes_available());
  }

  void Read(void* data, size_t size) {
    TVM_FFI_ICHECK_LE(size, bytes_available());
    if (size != 0) std::memcpy(data, bytes_.data() + begin_, size);
    Drop(size);
  }

  /// Hand at most `size` bytes to `send`, which says how many it took.
  template <typename Send>
  size_t ReadWithCallback(Send send, size_t size) {
    const size_t taken = send(bytes_.data() + begin_, std::min(size, bytes_available()));
    Drop(taken);
    return taken;
  }

  void Write(const void* data, size_t size) {
    MakeRoom(size);
    if (size != 0) std::memcpy(bytes_.data() + end_, data, size);
    end_ += size;
  }

  /// Let `receive` fill at most `size` bytes; it says how many came.
  template <typename Receive>
  size_t WriteWithCallback(Receive receive, size_t size) {
    MakeRoom(size);
    const size_t came = receive(bytes_.data() + end_, size);
    end_ += came;
    return came;
  }

 private:
  static constexpr size_t kKeptBytes = 1 << 20;

  void MakeRoom(size_t size) {
    if (end_ + size <= bytes_.size()) return;
    if (begin_ != 0) {
      std::memmove(bytes_.data(), bytes_.data() + begin_, bytes_available());
      end_ -= begin_;
      begin_ = 0;
    }
    if (end_ + size > bytes_.size()) bytes_.resize(std::max(end_ + size, 2 * bytes_.size()));
  }

  void Drop(size_t size) {
    begin_ += size;
    if (begin_ != end_) return;
    begin_ = end_ = 0;
    if (bytes_.size() > kKeptBytes) std::vector<char>().swap(bytes_);
  }

  std::vector<char> bytes_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace support
}  // namespace tvm

#endif  // TVM_SUPPORT_RING_BUFFER_H_
