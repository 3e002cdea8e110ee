// fetch_ahead(): memory that is brought into the cache before it is needed.
#pragma once

#include <cstdint>

namespace lathe {

/// How far ahead a loop fetches memory: about what it works through until the memory has arrived.
inline constexpr int64_t kFetchAheadBytes = 2048;

/// Asks for the `bytes` bytes that begin kFetchAheadBytes after `data` to be brought into the
/// second-level cache. Nothing is read, so they may lie outside any object. For loops of many
/// instructions per element: a processor sees only a few of their elements ahead, and in virtual
/// machines its own prefetching is weak.
[[gnu::always_inline]] inline void fetch_ahead(const void* data, int64_t bytes) {
  constexpr int64_t kLine = 64;
  const uintptr_t from = reinterpret_cast<uintptr_t>(data) + kFetchAheadBytes;
  for (int64_t byte = 0; byte < bytes; byte += kLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(from + static_cast<uintptr_t>(byte)), 0, 2);
  }
}

}  // namespace lathe
