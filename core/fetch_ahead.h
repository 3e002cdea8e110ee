// fetch_ahead(): memory that is brought into the cache before it is needed.
#pragma once

#include <cstdint>

namespace lathe {

/// Asks for `bytes` bytes at `data` to be brought into the second-level cache. Nothing is read:
/// `data` may be any address. For loops of many instructions per element: a processor sees only a
/// few of their elements ahead, and in virtual machines its own prefetching is weak.
[[gnu::always_inline]] inline void fetch_ahead(const void* data, int64_t bytes) {
  constexpr int64_t kLine = 64;
  const auto* const from = static_cast<const char*>(data);
  for (int64_t byte = 0; byte < bytes; byte += kLine) __builtin_prefetch(from + byte, 0, 2);
}

}  // namespace lathe
