// SPDX-License-Identifier: Apache-2.0
// Streams whose bytes are text in base 64 on the other side.
#ifndef TVM_SUPPORT_BASE64_H_
#define TVM_SUPPORT_BASE64_H_

#include <tvm/ffi/extra/base64.h>
#include <tvm/support/io.h>

#include <string>

#include "bytes_io.h"

namespace tvm {
namespace support {

class Base64OutStream : public BytesOutStream {
 public:
  explicit Base64OutStream(Stream* text) : BytesOutStream(&bytes_), text_(text) {}

  /// Write what has come so far.
  void Finish() {
    const ffi::String encoded = ffi::Base64Encode(ffi::Bytes(bytes_));
    text_->Write(static_cast<const void*>(encoded.data()), encoded.size());
    bytes_.clear();
  }

 private:
  Stream* text_;
  std::string bytes_;
};

class Base64InStream : public Stream {
 public:
  explicit Base64InStream(Stream* text) : text_(text), bytes_(std::string()) {}

  /// Read all of the text.
  void InitPosition() {
    std::string encoded;
    char piece[4096];
    while (const size_t size = text_->Read(static_cast<void*>(piece), sizeof(piece))) {
      encoded.append(piece, size);
    }
    decoded_ = ffi::Base64Decode(ffi::String(encoded));
    bytes_ = BytesInStream(decoded_);
  }

  using Stream::Read;
  using Stream::Write;

  size_t Read(void* data, size_t size) final { return bytes_.Read(data, size); }
  size_t Write(const void* data, size_t size) final { return bytes_.Write(data, size); }

 private:
  Stream* text_;
  ffi::Bytes decoded_;
  BytesInStream bytes_;
};

}  // namespace support
}  // namespace tvm

#endif  // TVM_SUPPORT_BASE64_H_
