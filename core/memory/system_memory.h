// Memory from the operating system, below core/memory/host_allocator: alignment, huge pages, and
// the marks that make AddressSanitizer treat cached blocks as freed.
#pragma once

#include <cstddef>

#include "lathe/core/config.h"
#include "lathe/core/fault.h"

namespace lathe::system_memory {

inline constexpr size_t kAlignment = 64;  // a cache line, the widest vector register
inline constexpr size_t kPage = 4096;     // blocks from this size on are page aligned
inline constexpr size_t kHugePage = size_t{2} << 20;
// Blocks from this size on are mapped, on huge pages if possible.
inline constexpr size_t kMapBytes = size_t{4} << 20;

/// A block of `bytes` > 0 bytes, or null. Release it with the same size.
void* allocate(size_t bytes) noexcept;
void release(void* block, size_t bytes) noexcept;

/// The same through aligned_alloc alone, for all sizes, so that memory checkers see every block.
void* allocate_plain(size_t bytes) noexcept;
void release_plain(void* block) noexcept;

/// Addresses whose memory comes and goes: a range of them without memory, or null. It begins at a
/// multiple of kHugePage.
void* reserve(size_t bytes) noexcept;
void unreserve(void* base, size_t bytes) noexcept;

/// Gives a part of such a range memory that is 0, or takes it away. Addresses and sizes are
/// multiples of a page. False: nothing changed.
bool commit(void* address, size_t bytes) noexcept;
void decommit(void* address, size_t bytes) noexcept;

/// True if the process may use only so many addresses (RLIMIT_AS): then they are not for reserving.
bool addresses_are_limited() noexcept;

/// When armed, makes the n-th call of allocate(), allocate_plain() or commit() fail.
FaultPoint& fault() noexcept;

/// usable_memory().total of core/process_limits.h, or the machine's memory if that is unknown.
size_t usable_bytes() noexcept;
/// Physical memory of the machine in bytes.
size_t physical_bytes() noexcept;

/// Under AddressSanitizer, poisoned bytes must not be accessed until unpoison(). Otherwise nothing.
void poison(void* block, size_t bytes) noexcept;
void unpoison(void* block, size_t bytes) noexcept;

}  // namespace lathe::system_memory
