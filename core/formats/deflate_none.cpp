// The functions of deflate.h in a build without zlib: they throw. See deflate_zlib.cpp.
#include "lathe/core/error.h"
#include "lathe/core/formats/deflate.h"

namespace lathe {

bool deflate_available() { return false; }

std::unique_ptr<Inflater> inflate(Inflater::Next, std::string what) {
  LATHE_FAIL(DataError, what,
             " is compressed, and this build has no zlib (install zlib1g-dev and build again)");
}

std::string deflate(std::span<const std::string_view>) {
  LATHE_FAIL(ValueError,
             "deflate: this build has no zlib (install zlib1g-dev and build again, or write "
             "without compression)");
}

}  // namespace lathe
