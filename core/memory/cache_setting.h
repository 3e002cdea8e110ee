// LATHE_NO_CACHE of the environment, for all allocators.
#pragma once

#include <cstdlib>
#include <string_view>

namespace lathe {

/// False for LATHE_NO_CACHE=1, true for 0; `otherwise` where it is empty or absent.
inline bool cache_is_wanted(bool otherwise) {
  const char* text = std::getenv("LATHE_NO_CACHE");
  if (text == nullptr || *text == '\0') return otherwise;
  return std::string_view(text) == "0";
}

}  // namespace lathe
