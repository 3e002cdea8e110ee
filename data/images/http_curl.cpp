// http_get() through libcurl's easy interface. http_none.cpp replaces it in builds without libcurl.
#include <curl/curl.h>

#include <charconv>
#include <exception>
#include <memory>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/data/images/http.h"

namespace lathe::data {
namespace {

constexpr long kMaxRedirections = 5;

struct Transfer {
  CURL* curl;
  const HttpHandlers& handlers;
  bool started = false;
  bool cancelled = false;
  uint64_t range_start = 0;        // from Content-Range of the present answer
  std::exception_ptr thrown = {};  // libcurl is C: an exception waits here until it has returned
};

bool starts_with_ignoring_case(std::string_view line, std::string_view lower_prefix) {
  if (line.size() < lower_prefix.size()) return false;
  for (size_t i = 0; i < lower_prefix.size(); ++i) {
    const char c = line[i];
    if ((c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c) != lower_prefix[i]) return false;
  }
  return true;
}

size_t on_header(char* bytes, size_t, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(bytes, count);
  constexpr std::string_view kRange = "content-range: bytes ";
  if (starts_with_ignoring_case(line, "http/")) transfer.range_start = 0;  // a new answer begins
  if (starts_with_ignoring_case(line, kRange))
    std::from_chars(line.data() + kRange.size(), line.data() + line.size(), transfer.range_start);
  return count;
}

size_t on_data(char* bytes, size_t, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    if (!transfer.started) {
      long status = 0;
      curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
      transfer.started = true;
      transfer.handlers.start(status == 206 ? transfer.range_start : 0);
    }
    transfer.handlers.data(bytes, count);
    return count;
  } catch (...) {
    transfer.thrown = std::current_exception();
    return 0;  // differs from `count`, so libcurl stops
  }
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    transfer.cancelled = !transfer.handlers.keep_going();
  } catch (...) {
    transfer.thrown = std::current_exception();
  }
  return transfer.cancelled || transfer.thrown ? 1 : 0;
}

HttpEnd classify(CURLcode code, const Transfer& transfer) {
  if (transfer.cancelled) return HttpEnd::kCancelled;
  switch (code) {
    case CURLE_OK: return HttpEnd::kDone;
    case CURLE_HTTP_RETURNED_ERROR: return HttpEnd::kRefused;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING: return HttpEnd::kBroken;
    case CURLE_OPERATION_TIMEDOUT:
      return transfer.started ? HttpEnd::kBroken : HttpEnd::kUnreachable;
    default: return transfer.started ? HttpEnd::kBroken : HttpEnd::kUnreachable;
  }
}

}  // namespace

HttpResult http_get(const HttpRequest& request, const HttpHandlers& handlers) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(), curl_easy_cleanup);
  LATHE_CHECK(FileError, initialised == CURLE_OK && handle != nullptr, "libcurl does not start");
  CURL* curl = handle.get();
  Transfer transfer{.curl = curl, .handlers = handlers};
  char text[CURL_ERROR_SIZE] = "";
  const std::string range = std::to_string(request.from_byte) + "-";

  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, kMaxRedirections);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "lathe");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout_ms));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(request.least_bytes_per_s));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_timeout_s));
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, text);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_data);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  // CURLOPT_RESUME_FROM is not used: with it libcurl gives up on a server that ignores ranges.
  if (request.from_byte > 0) curl_easy_setopt(curl, CURLOPT_RANGE, range.c_str());

  const CURLcode code = curl_easy_perform(curl);
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  HttpResult result{.end = classify(code, transfer), .status = 0, .text = {}};
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &result.status);
  if (code != CURLE_OK) result.text = text[0] != '\0' ? text : curl_easy_strerror(code);
  return result;
}

bool http_available() { return true; }

}  // namespace lathe::data
