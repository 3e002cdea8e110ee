// TCP connections that carry lines: names to addresses, listening, connecting, reading, sending.
#include "lathe/distributed/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "lathe/distributed/error.h"

namespace lathe::distributed {

namespace {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// Null and `problem` if the name is not known.
Addresses addresses_of(const HostPort& at, bool to_listen, std::string& problem) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = to_listen ? AI_PASSIVE : 0;
  addrinfo* list = nullptr;
  const int status = getaddrinfo(at.host.c_str(), std::to_string(at.port).c_str(), &hints, &list);
  if (status != 0) {
    problem = "no address is known for " + at.host + ": " + gai_strerror(status);
    return nullptr;
  }
  return Addresses(list);
}

void make_nonblocking(int socket) { fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK); }

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
}

HostPort numeric(const sockaddr_storage& address, socklen_t length) {
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "0";
  getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host, sizeof host, port,
              sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return {host, std::atoi(port)};
}

/// Waits until a connection that was begun is made.
bool finish_connecting(int socket, Clock::time_point deadline, std::string& problem) {
  pollfd entry = {socket, POLLOUT, 0};
  const int ready = poll(&entry, 1, milliseconds_until(deadline));
  int status = ETIMEDOUT;
  socklen_t length = sizeof status;
  if (ready > 0) getsockopt(socket, SOL_SOCKET, SO_ERROR, &status, &length);
  if (status != 0) problem = std::strerror(status);
  return status == 0;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

std::string HostPort::text() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

HostPort parse_host_port(const std::string& text, const std::string& what) {
  const size_t colon = text.rfind(':');
  HostPort out;
  if (colon != std::string::npos) {
    out.host = text.substr(0, colon);
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + colon + 1, end, out.port);
    if (error != std::errc() || at != end) out.port = -1;
  }
  if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']')
    out.host = out.host.substr(1, out.host.size() - 2);
  LATHE_CHECK(ValueError, !out.host.empty() && out.port >= 0 && out.port <= 65535, what,
              ": expected HOST:PORT with a port from 0 to 65535, got \"", text, "\"");
  return out;
}

Descriptor listen_on(const HostPort& at) {
  std::string problem;
  const Addresses list = addresses_of(at, true, problem);
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    Descriptor socket(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (socket.valid()) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (socket.valid() && bind(socket.get(), a->ai_addr, a->ai_addrlen) == 0 &&
        listen(socket.get(), 128) == 0) {
      make_nonblocking(socket.get());
      return socket;
    }
    problem = std::strerror(errno);
    if (errno == EADDRNOTAVAIL) problem = "it is no address of this machine, on which rank 0 runs";
  }
  LATHE_FAIL(DistributedError, "process group: rank 0 cannot listen on ", at.text(), ": ", problem);
}

Descriptor connect_to(const HostPort& to, Clock::time_point deadline, std::string& problem) {
  const Addresses list = addresses_of(to, false, problem);
  for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
    Descriptor socket(::socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.valid() && connect(socket.get(), a->ai_addr, a->ai_addrlen) == 0) return socket;
    if (errno != EINPROGRESS) {
      problem = std::strerror(errno);
    } else if (finish_connecting(socket.get(), deadline, problem)) {
      return socket;
    }
  }
  return Descriptor();
}

HostPort local_end(int socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  return numeric(address, length);
}

HostPort far_end(int socket) {
  sockaddr_storage address = {};
  socklen_t length = sizeof address;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {"?", 0};
  return numeric(address, length);
}

WakePipe::WakePipe() {
  int ends[2];
  LATHE_CHECK(DistributedError, pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0,
              "process group: no pipe: ", std::strerror(errno));
  read_end = Descriptor(ends[0]);
  write_end = Descriptor(ends[1]);
}

void WakePipe::wake() const noexcept {
  const char byte = 0;
  [[maybe_unused]] const auto written = write(write_end.get(), &byte, 1);  // full: it wakes anyway
}

void WakePipe::drain() const noexcept {
  char bytes[64];
  while (read(read_end.get(), bytes, sizeof bytes) > 0) {
  }
}

Lines::Lines(Descriptor socket) : socket_(std::move(socket)) {
  make_nonblocking(socket_.get());
  const int on = 1;
  setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool Lines::receive() {
  char bytes[4096];
  while (true) {
    const ssize_t count = recv(socket_.get(), bytes, sizeof bytes, 0);
    if (count > 0) received_.append(bytes, static_cast<size_t>(count));
    if (received_.size() - begin_ > longest_) return false;
    if (count == 0) return false;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  }
}

bool Lines::next(std::string& line) {
  const size_t end = received_.find('\n', begin_);
  if (end == std::string::npos) {
    received_.erase(0, std::exchange(begin_, 0));
    return false;
  }
  line.assign(received_, begin_, end - begin_);
  begin_ = end + 1;
  return true;
}

bool Lines::send(const std::string& line) noexcept {
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  const auto send_all = [&](const char* data, size_t size) {
    while (size > 0) {
      const ssize_t sent = ::send(socket_.get(), data, size, MSG_NOSIGNAL);
      if (sent > 0) {
        data += sent;
        size -= static_cast<size_t>(sent);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        pollfd entry = {socket_.get(), POLLOUT, 0};
        const int wait_ms = milliseconds_until(deadline);
        if (wait_ms == 0 || poll(&entry, 1, wait_ms) <= 0) return false;
      } else if (errno != EINTR) {
        return false;
      }
    }
    return true;
  };
  return send_all(line.data(), line.size()) && send_all("\n", 1);
}

}  // namespace lathe::distributed
