#include "lathe/tests/fuzz/allocation_watch.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

#include "lathe/core/config.h"
#include "lathe/core/memory/host_allocator.h"

#if defined(LATHE_ASAN)
// Of sanitizer/allocator_interface.h, which not every compiler brings along.
extern "C" {
int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void* block,
                                                                  size_t bytes),
                                              void (*free_hook)(const volatile void* block));
size_t __sanitizer_get_allocated_size(const volatile void* block);
}
#endif

namespace {

std::atomic<int64_t> live{0}, peak{0};

void add(int64_t bytes) {
  const int64_t now = live += bytes;
  int64_t most = peak;
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
}

#if defined(LATHE_ASAN)

// AddressSanitizer has operators of its own, which must see both ends of a block; it tells us of
// every one, those of tensors included.
constexpr bool kSeesTensors = true;

[[maybe_unused]] const int installed = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, size_t bytes) { add(static_cast<int64_t>(bytes)); },
    [](const volatile void* block) {
      if (block != nullptr) {
        add(-static_cast<int64_t>(__sanitizer_get_allocated_size(block)));
      }
    });

#else

constexpr bool kSeesTensors = false;

void* count(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  add(static_cast<int64_t>(malloc_usable_size(block)));
  return block;
}

void uncount(void* block) noexcept {
  if (block != nullptr) live -= static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}

#endif

}  // namespace

#if !defined(LATHE_ASAN)
void* operator new(size_t bytes) { return count(std::malloc(std::max<size_t>(bytes, 1))); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto to = static_cast<size_t>(alignment);
  return count(std::aligned_alloc(to, (bytes + to - 1) / to * to));
}
void operator delete(void* block) noexcept { uncount(block); }
void operator delete(void* block, size_t) noexcept { uncount(block); }
void operator delete(void* block, std::align_val_t) noexcept { uncount(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { uncount(block); }
#endif

namespace lathe::fuzz {

AllocationWatch::AllocationWatch() : before_(live) {
  peak = before_;
  host_allocator().reset_peak();
  tensors_before_ = static_cast<int64_t>(host_allocator().stats().allocated_bytes);
}

int64_t AllocationWatch::peak_bytes() const {
  if (kSeesTensors) return peak - before_;
  const auto tensors = static_cast<int64_t>(host_allocator().stats().peak_allocated_bytes);
  return peak - before_ + tensors - tensors_before_;
}

void AllocationWatch::check(int64_t input_bytes) const {
  const int64_t limit = 4 * input_bytes + (int64_t{1} << 20);
  if (peak_bytes() > limit) {
    throw std::logic_error("allocated " + std::to_string(peak_bytes()) + " bytes for an input of " +
                           std::to_string(input_bytes) + ", limit " + std::to_string(limit));
  }
}

}  // namespace lathe::fuzz
