// How well an address is aligned.
#pragma once

#include <cstdint>

namespace lathe {

/// The largest power of two up to 16 that divides the address.
inline int64_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | 16;
  return static_cast<int64_t>(bits & -bits);
}

}  // namespace lathe
