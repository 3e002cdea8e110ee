#include "http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

namespace lathe::data::testing {
namespace {

void send_all(int connection, const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = send(connection, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

std::string read_request(int connection) {
  std::string request;
  char block[1024];
  while (request.find("\r\n\r\n") == std::string::npos) {
    const ssize_t n = recv(connection, block, sizeof block, 0);
    if (n <= 0) break;
    request.append(block, static_cast<size_t>(n));
  }
  return request;
}

int64_t first_byte_asked(const std::string& request) {
  const std::string key = "Range: bytes=";
  const size_t at = request.find(key);
  return at == std::string::npos ? 0 : std::stoll(request.substr(at + key.size()));
}

}  // namespace

HttpServer::HttpServer(ServerScript script) : script_(std::move(script)) {
  listener_ = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener_, 8) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("HttpServer: no socket on 127.0.0.1");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

HttpServer::~HttpServer() {
  stop_ = true;
  thread_.join();
  close(listener_);
}

std::string HttpServer::url(const std::string& path) const {
  return "http://127.0.0.1:" + std::to_string(port_) + path;
}

std::vector<int64_t> HttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void HttpServer::serve() {
  while (!stop_) {
    pollfd ready{listener_, POLLIN, 0};
    if (poll(&ready, 1, 20) <= 0) continue;
    const int connection = accept(listener_, nullptr, nullptr);
    if (connection < 0) continue;
    answer(connection);
    shutdown(connection, SHUT_WR);
    close(connection);
  }
}

void HttpServer::answer(int connection) {
  const std::string request = read_request(connection);
  const int64_t asked = first_byte_asked(request);
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(asked);
  }
  if (!script_.redirect_to.empty() && request.rfind("GET /moved ", 0) == 0)
    return send_all(connection,
                    "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: " +
                        script_.redirect_to + "\r\n\r\n");
  const auto size = static_cast<int64_t>(script_.content.size());
  if (script_.status != 200 || (script_.ranges && asked > 0 && asked >= size))
    return send_all(connection, "HTTP/1.1 " +
                                    std::to_string(script_.status != 200 ? script_.status : 416) +
                                    " No\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnone");
  const int64_t from = script_.ranges ? asked : 0;
  std::string head = from > 0 ? "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " +
                                    std::to_string(from) + "-" + std::to_string(size - 1) + "/" +
                                    std::to_string(size) + "\r\n"
                              : "HTTP/1.1 200 OK\r\n";
  head += "Content-Length: " + std::to_string(size - from) + "\r\nConnection: close\r\n\r\n";
  send_all(connection, head);
  for (int waited = 0; waited < script_.stall_ms && !stop_; waited += 10)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  int64_t count = size - from;
  if (script_.drop_after >= 0 && script_.drops > 0) {
    --script_.drops;
    count = std::min(count, script_.drop_after);
    script_.drop_after += script_.drop_later;
  }
  for (int64_t k = 0; script_.trickle_ms > 0 && k < count && !stop_; ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(script_.trickle_ms));
    send_all(connection, script_.content.substr(static_cast<size_t>(from + k), 1));
  }
  if (script_.trickle_ms > 0) return;
  send_all(connection,
           script_.content.substr(static_cast<size_t>(from), static_cast<size_t>(count)));
}

}  // namespace lathe::data::testing
