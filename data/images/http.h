// One HTTP GET, as fetch.cpp needs it: http_curl.cpp, or http_none.cpp in builds without libcurl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace lathe::data {

struct HttpRequest {
  std::string url;         // http or https; up to 5 redirections are followed
  uint64_t from_byte = 0;  // where in the file to begin
  int64_t connect_timeout_ms = 5000;
  int64_t stall_timeout_s = 30;   // give up if for this long
  int64_t least_bytes_per_s = 1;  // less than this arrives
};

struct HttpHandlers {
  /// Called once before the first byte, with its position in the file. A server that ignores ranges
  /// begins at 0.
  std::function<void(uint64_t first_byte)> start;
  /// Called for each block. If it throws, the transfer ends and http_get throws that.
  std::function<void(const char* bytes, size_t count)> data;
  /// Asked at least once a second, also while nothing arrives. False ends the transfer.
  std::function<bool()> keep_going;
};

enum class HttpEnd {
  kDone,         // the whole answer was delivered
  kRefused,      // an answer with a status of 400 or more
  kUnreachable,  // no connection: name, route, refused, timeout, TLS
  kBroken,       // the connection ended early or stalled
  kCancelled,    // keep_going returned false
};

struct HttpResult {
  HttpEnd end;
  long status;       // HTTP status, 0 if none came
  std::string text;  // what went wrong, in words; empty if done
};

/// throws: what a handler throws; FileError in a build without libcurl.
HttpResult http_get(const HttpRequest& request, const HttpHandlers& handlers);

/// False in a build without libcurl.
bool http_available();

}  // namespace lathe::data
