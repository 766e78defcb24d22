// SPDX-License-Identifier: Apache-2.0
#include "wire.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <tvm/support/io.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "src/runtime/rpc/minrpc/rpc_reference.h"

namespace kope {
namespace {

std::string Errno(const std::string& what) { return what + ": " + std::strerror(errno); }

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses Resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const std::string service = std::to_string(port);
  const int failed = getaddrinfo(host.c_str(), service.c_str(), &hints, &found);
  if (failed) throw WireError(host + ": " + gai_strerror(failed));
  return Addresses(found, freeaddrinfo);
}

/// What TVM's writer of exceptions writes to.
class ExceptionWriter : public tvm::support::Stream {
 public:
  explicit ExceptionWriter(const Socket& client) : client_(client) {}

  using Stream::Read;
  using Stream::Write;
  size_t Read(void*, size_t) final { return 0; }
  size_t Write(const void* data, size_t size) final {
    client_.SendAll(data, size);
    return size;
  }
  void MessageStart(uint64_t) {}
  void MessageDone() {}

 private:
  const Socket& client_;
};

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = other.Release();
  }
  return *this;
}

int Socket::Release() { return std::exchange(fd_, -1); }

void Socket::Close() {
  if (fd_ >= 0) close(Release());
}

void Socket::SetTimeout(int secs) const {
  timeval limit{secs, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

void Socket::KeepAlive() const {
  const int on = 1, idle_secs = 10, interval_secs = 5, count = 3;
  setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd_, IPPROTO_TCP, TCP_KEEPIDLE, &idle_secs, sizeof(idle_secs));
  setsockopt(fd_, IPPROTO_TCP, TCP_KEEPINTVL, &interval_secs, sizeof(interval_secs));
  setsockopt(fd_, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void Socket::SendAll(const void* data, size_t size) const {
  const char* next = static_cast<const char*>(data);
  while (size != 0) {
    const ssize_t sent = send(fd_, next, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) throw WireError(Errno("send"));
    next += sent;
    size -= sent;
  }
}

void Socket::SendText(const std::string& text) const {
  SendInt(static_cast<int32_t>(text.size()));
  SendAll(text.data(), text.size());
}

void Socket::RecvAll(void* data, size_t size) const {
  char* next = static_cast<char*>(data);
  while (size != 0) {
    const ssize_t came = recv(fd_, next, size, 0);
    if (came < 0 && errno == EINTR) continue;
    if (came == 0) throw WireError("the other side has closed the connection");
    if (came < 0) throw WireError(Errno("recv"));
    next += came;
    size -= came;
  }
}

int32_t Socket::RecvInt() const {
  int32_t value = 0;
  RecvAll(&value, sizeof(value));
  return value;
}

std::string Socket::RecvText(size_t max_bytes) const {
  const int32_t size = RecvInt();
  if (size < 0 || size_t(size) > max_bytes) throw WireError("a message of a wrong length");
  std::string text(size, '\0');
  RecvAll(text.data(), text.size());
  return text;
}

Socket Listen(const std::string& host, int* port, int port_end) {
  for (; *port < port_end; ++*port) {
    const Addresses found = Resolve(host, *port, AI_PASSIVE);
    Socket sock(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    setsockopt(sock.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(sock.fd(), found->ai_addr, found->ai_addrlen) == 0 && listen(sock.fd(), 16) == 0) {
      return sock;
    }
  }
  throw WireError(Errno("no free port to listen on at " + host));
}

Socket Connect(const std::string& host, int port, int secs) {
  const Addresses found = Resolve(host, port, 0);
  for (const addrinfo* each = found.get(); each; each = each->ai_next) {
    Socket sock(socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sock.SetTimeout(secs);
    if (connect(sock.fd(), each->ai_addr, each->ai_addrlen) == 0) return sock;
  }
  throw WireError(Errno(host + ":" + std::to_string(port)));
}

void SendException(const Socket& client, const std::string& text) {
  ExceptionWriter writer(client);
  tvm::runtime::RPCReference::ReturnException(text.c_str(), &writer);
}

}  // namespace kope
