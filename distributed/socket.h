// TCP connections that carry lines of text, for the control connection (control_client.h,
// control_server.h). Nothing here throws but where it says so; a peer may send anything.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace lathe::distributed {

using Clock = std::chrono::steady_clock;

/// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

struct HostPort {
  std::string host;
  int port = 0;
  std::string text() const;  // "127.0.0.1:29500", "[::1]:29500"
};

/// "HOST:PORT", "[IPv6]:PORT".
/// throws: ValueError that names `what`.
HostPort parse_host_port(const std::string& text, const std::string& what);

/// Listens on that address and no other; port 0: a free one.
/// throws: DistributedError for an unknown name, an address of another machine, a port in use.
Descriptor listen_on(const HostPort& at);

/// One attempt to connect. On failure the descriptor is invalid and `problem` says why.
Descriptor connect_to(const HostPort& to, Clock::time_point deadline, std::string& problem);

/// The two ends of a socket.
HostPort local_end(int socket);
HostPort far_end(int socket);

/// Two connected descriptors with which one thread wakes another one that waits in poll().
struct WakePipe {
  WakePipe();
  void wake() const noexcept;
  void drain() const noexcept;
  Descriptor read_end, write_end;
};

/// Lines over a connected socket, which becomes non-blocking.
class Lines {
 public:
  static constexpr size_t kLongest = size_t{1} << 20;  // a rank's addresses: kB per 1,000 ranks

  explicit Lines(Descriptor socket);

  /// How many bytes may wait to be read as lines.
  void limit(size_t bytes) { longest_ = bytes; }

  /// Reads what has arrived. False if the connection is over or sends lines that are too long.
  bool receive();
  /// The next whole line, without its end. False if there is none yet.
  bool next(std::string& line);
  /// Sends a line. False if the connection is over, or takes nothing for a second.
  bool send(const std::string& line) noexcept;

  int socket() const { return socket_.get(); }

 private:
  Descriptor socket_;
  std::string received_;
  size_t begin_ = 0;  // of the next line in it
  size_t longest_ = kLongest;
};

}  // namespace lathe::distributed
