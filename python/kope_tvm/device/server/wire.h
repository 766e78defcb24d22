// SPDX-License-Identifier: Apache-2.0
// Sockets that speak what TVM's tracker and its RPC clients speak: 32-bit integers, text, packets.
#ifndef KOPE_SERVER_WIRE_H_
#define KOPE_SERVER_WIRE_H_

#include <cstdint>
#include <stdexcept>
#include <string>

namespace kope {

/// First word between server and client, and the answer "that key is not mine".
constexpr int32_t kRpcMagic = 0xff271;
constexpr int32_t kRpcMismatch = kRpcMagic + 2;
/// First word to and from the tracker.
constexpr int32_t kTrackerMagic = 0x2f271;

/// The other side has gone, or is silent for longer than the socket's limit.
class WireError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A file descriptor that closes itself.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.Release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { Close(); }

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int Release();
  void Close();

  /// Every receive and send that takes longer is a WireError.
  void SetTimeout(int secs) const;
  /// Notice a peer that lost its power.
  void KeepAlive() const;

  void SendAll(const void* data, size_t size) const;
  void SendInt(int32_t value) const { SendAll(&value, sizeof(value)); }
  /// The length in 32 bits, then the text.
  void SendText(const std::string& text) const;

  void RecvAll(void* data, size_t size) const;
  int32_t RecvInt() const;
  std::string RecvText(size_t max_bytes) const;

 private:
  int fd_ = -1;
};

/// A socket that listens on the first free port of the range, which `port` becomes.
Socket Listen(const std::string& host, int* port, int port_end);

/// A connection, or a WireError after `secs`.
Socket Connect(const std::string& host, int port, int secs);

/// Tell an RPC client that waits for an answer why there is none.
void SendException(const Socket& client, const std::string& text);

}  // namespace kope

#endif  // KOPE_SERVER_WIRE_H_
