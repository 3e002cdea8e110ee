// malloc below 4 MiB, mmap with huge pages from there on.
#include "lathe/core/memory/system_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#include "lathe/core/ceil_div.h"
#include "lathe/core/process_limits.h"

#if defined(LATHE_ASAN)
#  include <sanitizer/asan_interface.h>
#endif

namespace lathe::system_memory {

namespace {

// Mapped directly, so that it returns to the system as soon as it is released (malloc may keep it).
// Aligned to a huge page: the first writes to a new tensor cost one page fault per 2 MiB, not 512.
void* map(size_t bytes, int protection, int more_flags) noexcept {
  const size_t mapped = bytes + kHugePage;
  void* start = mmap(nullptr, mapped, protection, MAP_PRIVATE | MAP_ANONYMOUS | more_flags, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<uintptr_t>(start);
  const uintptr_t aligned = round_up(address, kHugePage);
  const size_t before = aligned - address, after = kHugePage - before;
  if (before != 0) munmap(start, before);
  if (after != 0) munmap(reinterpret_cast<void*>(aligned + bytes), after);
  void* block = reinterpret_cast<void*>(aligned);
  madvise(block, bytes, MADV_HUGEPAGE);  // only a hint: small pages work too
  return block;
}

}  // namespace

void* allocate(size_t bytes) noexcept {
  if (bytes < kMapBytes) return allocate_plain(bytes);
  return fault().hit() ? nullptr : map(round_up(bytes, kPage), PROT_READ | PROT_WRITE, 0);
}

void release(void* block, size_t bytes) noexcept {
  if (bytes < kMapBytes) return release_plain(block);
  munmap(block, round_up(bytes, kPage));
}

void* allocate_plain(size_t bytes) noexcept {
  if (fault().hit()) return nullptr;
  const size_t alignment = bytes >= kPage ? kPage : kAlignment;
  return std::aligned_alloc(alignment, round_up(bytes, alignment));
}

void release_plain(void* block) noexcept { std::free(block); }

void* reserve(size_t bytes) noexcept { return map(bytes, PROT_NONE, MAP_NORESERVE); }

void unreserve(void* base, size_t bytes) noexcept { munmap(base, bytes); }

bool commit(void* address, size_t bytes) noexcept {
  return !fault().hit() && mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
}

// A new mapping in its place: unlike MADV_DONTNEED it is no longer counted as memory that the
// process may use.
void decommit(void* address, size_t bytes) noexcept {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (mmap(address, bytes, PROT_NONE, kFlags, -1, 0) == MAP_FAILED) {  // too many mappings
    madvise(address, bytes, MADV_DONTNEED);
    return;
  }
  madvise(address, bytes, MADV_HUGEPAGE);
}

bool addresses_are_limited() noexcept {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

FaultPoint& fault() noexcept {
  static constinit FaultPoint point;
  return point;
}

size_t usable_bytes() noexcept {
  try {
    if (const int64_t total = usable_memory().total; total > 0) return static_cast<size_t>(total);
  } catch (const std::bad_alloc&) {  // for reading the limits
  }
  return physical_bytes();
}

size_t physical_bytes() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page) : 0;
}

void poison([[maybe_unused]] void* block, [[maybe_unused]] size_t bytes) noexcept {
#if defined(LATHE_ASAN)
  __asan_poison_memory_region(block, bytes);
#endif
}

void unpoison([[maybe_unused]] void* block, [[maybe_unused]] size_t bytes) noexcept {
#if defined(LATHE_ASAN)
  __asan_unpoison_memory_region(block, bytes);
#endif
}

}  // namespace lathe::system_memory
