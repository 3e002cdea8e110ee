// The environment variable LATHE_NO_CACHE, which all allocators obey.
#pragma once

#include <cstdlib>
#include <string_view>

namespace lathe {

/// True for LATHE_NO_CACHE=0, false for any other text; `otherwise` if it is empty or absent.
inline bool cache_is_wanted(bool otherwise) {
  const char* text = std::getenv("LATHE_NO_CACHE");
  if (text == nullptr || *text == '\0') return otherwise;
  return std::string_view(text) == "0";
}

}  // namespace lathe
