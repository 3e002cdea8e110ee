// http_get() through libcurl's easy interface. http_none.cpp replaces it in builds without libcurl.
#define CURL_DISABLE_TYPECHECK  // its checks are macros, which call no table
#include <curl/curl.h>

#include <charconv>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "lathe/core/error.h"
#include "lathe/core/shared_library.h"
#include "lathe/data/images/http.h"

namespace lathe::data {
namespace {

/// The functions that are called here.
struct Libcurl {
  SharedLibrary& library;
  LATHE_FUNCTION(curl_easy_getinfo);
  LATHE_FUNCTION(curl_version_info);
  LATHE_FUNCTION(curl_global_init);
  LATHE_FUNCTION(curl_easy_init);
  LATHE_FUNCTION(curl_easy_setopt);
  LATHE_FUNCTION(curl_easy_perform);
  LATHE_FUNCTION(curl_easy_strerror);
  LATHE_FUNCTION(curl_easy_cleanup);
};

const Libcurl& libcurl() {
  static SharedLibrary& library = *new SharedLibrary(
      {.name = "libcurl",
       .file = LATHE_LIBRARY_FILE,
       .folder = LATHE_LIBRARY_FOLDER,
       .built = {LIBCURL_VERSION_MAJOR, LIBCURL_VERSION_MINOR, LIBCURL_VERSION_PATCH},
       .advice = "install libcurl, or build with LATHE_CURL=OFF",
       .of_gpu = false});
  static const Libcurl functions{library};
  return functions;
}

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
      libcurl().curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
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

void check_libcurl(const HttpRequest& request) {
  try {
    libcurl();
  } catch (const Error& error) {
    LATHE_FAIL(FileError, "cannot download ", request.url, ": ", error.message());
  }
}

/// The file of certificates to trust: that of SSL_CERT_FILE, else the first usual one that is
/// there. Null leaves it to libcurl. A libcurl that was built on another system names a file that
/// this one may not have.
const char* certificates() {
  const char* const asked = std::getenv("SSL_CERT_FILE");
  if (asked != nullptr && *asked != '\0') return asked;
  const curl_version_info_data* const about = libcurl().curl_version_info(CURLVERSION_NOW);
  const char* const own = about->age >= CURLVERSION_SEVENTH ? about->cainfo : nullptr;
  for (const char* const file :
       {own, "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    std::error_code unreadable;  // then it cannot be used
    if (file != nullptr && std::filesystem::is_regular_file(file, unreadable)) return file;
  }
  return nullptr;
}

}  // namespace

HttpResult http_get(const HttpRequest& request, const HttpHandlers& handlers) {
  check_libcurl(request);
  static const CURLcode initialised = libcurl().curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(libcurl().curl_easy_init(),
                                                      libcurl().curl_easy_cleanup);
  LATHE_CHECK(FileError, initialised == CURLE_OK && handle != nullptr, "libcurl does not start");
  CURL* curl = handle.get();
  const auto set = libcurl().curl_easy_setopt;
  Transfer transfer{.curl = curl, .handlers = handlers};
  char text[CURL_ERROR_SIZE] = "";
  const std::string range = std::to_string(request.from_byte) + "-";

  set(curl, CURLOPT_URL, request.url.c_str());
  set(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  set(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(curl, CURLOPT_FOLLOWLOCATION, 1L);
  set(curl, CURLOPT_MAXREDIRS, kMaxRedirections);
  set(curl, CURLOPT_FAILONERROR, 1L);
  set(curl, CURLOPT_NOSIGNAL, 1L);
  set(curl, CURLOPT_USERAGENT, "lathe");
  set(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(request.connect_timeout_ms));
  set(curl, CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(request.least_bytes_per_s));
  set(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_timeout_s));
  if (const char* const trusted = certificates()) set(curl, CURLOPT_CAINFO, trusted);
  set(curl, CURLOPT_ERRORBUFFER, text);
  set(curl, CURLOPT_HEADERFUNCTION, on_header);
  set(curl, CURLOPT_HEADERDATA, &transfer);
  set(curl, CURLOPT_WRITEFUNCTION, on_data);
  set(curl, CURLOPT_WRITEDATA, &transfer);
  set(curl, CURLOPT_NOPROGRESS, 0L);
  set(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  set(curl, CURLOPT_XFERINFODATA, &transfer);
  // CURLOPT_RESUME_FROM is not used: with it libcurl gives up on a server that ignores ranges.
  if (request.from_byte > 0) set(curl, CURLOPT_RANGE, range.c_str());

  const CURLcode code = libcurl().curl_easy_perform(curl);
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  HttpResult result{.end = classify(code, transfer), .status = 0, .text = {}};
  libcurl().curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &result.status);
  if (code != CURLE_OK) result.text = text[0] != '\0' ? text : libcurl().curl_easy_strerror(code);
  return result;
}

bool http_available() { return true; }

}  // namespace lathe::data
