// SPDX-License-Identifier: Apache-2.0
// Memory that is given back all at once.
#ifndef TVM_SUPPORT_ARENA_H_
#define TVM_SUPPORT_ARENA_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

namespace tvm {
namespace support {

class Arena {
 public:
  /// Room for `count` values that need no constructor.
  template <typename T>
  T* allocate_(int count) {
    const size_t size = (sizeof(T) * count + kAlign - 1) / kAlign * kAlign;
    if (blocks_.empty() || used_ + size > capacity_) {
      capacity_ = std::max(size, kBlockBytes);
      blocks_.emplace_back(new char[capacity_]);
      used_ = 0;
    }
    char* place = blocks_.back().get() + used_;
    used_ += size;
    return reinterpret_cast<T*>(place);
  }

  void RecycleAll() {
    blocks_.clear();
    used_ = capacity_ = 0;
  }

 private:
  static constexpr size_t kAlign = alignof(std::max_align_t);
  static constexpr size_t kBlockBytes = 16 << 10;

  std::vector<std::unique_ptr<char[]>> blocks_;
  size_t used_ = 0;
  size_t capacity_ = 0;
};

}  // namespace support
}  // namespace tvm

#endif  // TVM_SUPPORT_ARENA_H_
