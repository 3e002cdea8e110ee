// A web server on the loopback address that misbehaves as told, for the download tests.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lathe::data::testing {

/// What the server does with the file it serves.
struct ServerScript {
  std::string content;
  bool ranges = true;            // answers Range with 206; otherwise always sends everything
  int status = 200;              // anything else: sends only that
  int64_t drop_after = -1;       // closes each connection after so many bytes of content
  int64_t drop_later = 0;        // each time after so many bytes more than the time before
  int drops = 1 << 20;           // so many times; afterwards it sends everything
  int stall_ms = 0;              // waits before the content
  int trickle_ms = 0;            // waits before each byte of the content
  std::string redirect_to = {};  // answers /moved with 302 to this path
};

/// Serves one file at every path on 127.0.0.1, one connection after another, until it is destroyed.
class HttpServer {
 public:
  explicit HttpServer(ServerScript script);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url(const std::string& path = "/file") const;
  /// The first byte asked for, per request so far (0: no Range header).
  std::vector<int64_t> requests() const;

 private:
  void serve();
  void answer(int connection);

  ServerScript script_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;
  std::vector<int64_t> requests_;
  std::thread thread_;
};

}  // namespace lathe::data::testing
