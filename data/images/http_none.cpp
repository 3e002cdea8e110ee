// Replaces http_curl.cpp in a build without libcurl: every download throws.
#include "lathe/core/error.h"
#include "lathe/data/images/http.h"

namespace lathe::data {

HttpResult http_get(const HttpRequest& request, const HttpHandlers&) {
  LATHE_FAIL(FileError, "cannot download ", request.url,
             ": this build has no libcurl (install libcurl4-openssl-dev and build again)");
}

bool http_available() { return false; }

}  // namespace lathe::data
