// Memory from the operating system, under core/memory/host_allocator: alignment, huge pages, and the marks
// that make AddressSanitizer treat cached blocks as freed.
#pragma once

#include <cstddef>

#include "lathe/core/config.h"
#include "lathe/core/fault.h"

namespace lathe::system_memory {

inline constexpr size_t kAlignment = 64;  // a cache line, the widest vector register
inline constexpr size_t kPage = 4096;     // from this size on blocks are page aligned
inline constexpr size_t kMapBytes =
    size_t{4} << 20;  // from this size on blocks are mapped, on huge pages if possible

/// A block of `bytes` > 0 bytes, or null. Give it back with the same size.
void* allocate(size_t bytes) noexcept;
void release(void* block, size_t bytes) noexcept;

/// The same through aligned_alloc alone, whatever the size: what memory checkers can watch.
void* allocate_plain(size_t bytes) noexcept;
void release_plain(void* block) noexcept;

/// Fails the n-th allocation of either kind.
FaultPoint& fault() noexcept;

/// Physical memory of the machine in bytes.
size_t physical_bytes() noexcept;

/// Under AddressSanitizer: the bytes must not be, or may again be, accessed. Otherwise nothing.
void poison(void* block, size_t bytes) noexcept;
void unpoison(void* block, size_t bytes) noexcept;

}  // namespace lathe::system_memory
