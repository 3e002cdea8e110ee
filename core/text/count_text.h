// count_text(): "1 thread", "2 threads".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lathe/core/text/formatted.h"

namespace lathe {

/// The number and the noun, which gets an s unless there is one of it.
inline std::string count_text(int64_t count, std::string_view noun) {
  return formatted("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace lathe
