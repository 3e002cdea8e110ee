// Memory from the operating system, below core/memory/host_allocator: alignment, huge pages, and
// the marks that make AddressSanitizer treat cached blocks as freed.
#pragma once

#include <cstddef>

#include "lathe/core/config.h"
#include "lathe/core/fault.h"

namespace lathe::system_memory {

inline constexpr size_t kAlignment = 64;  // a cache line, the widest vector register
inline constexpr size_t kPage = 4096;     // blocks from this size on are page aligned
// Blocks from this size on are mapped, on huge pages if possible.
inline constexpr size_t kMapBytes = size_t{4} << 20;

/// A block of `bytes` > 0 bytes, or null. Release it with the same size.
void* allocate(size_t bytes) noexcept;
void release(void* block, size_t bytes) noexcept;

/// The same through aligned_alloc alone, for all sizes, so that memory checkers see every block.
void* allocate_plain(size_t bytes) noexcept;
void release_plain(void* block) noexcept;

/// When armed, makes the n-th allocation of either kind fail.
FaultPoint& fault() noexcept;

/// Physical memory of the machine in bytes.
size_t physical_bytes() noexcept;

/// Under AddressSanitizer, poisoned bytes must not be accessed until unpoison(). Otherwise nothing.
void poison(void* block, size_t bytes) noexcept;
void unpoison(void* block, size_t bytes) noexcept;

}  // namespace lathe::system_memory
