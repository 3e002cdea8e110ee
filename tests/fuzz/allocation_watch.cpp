#include "lathe/tests/fuzz/allocation_watch.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

#include "lathe/core/host_allocator.h"

namespace {

std::atomic<int64_t> live{0}, peak{0};

void* count(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  const int64_t now = live += static_cast<int64_t>(malloc_usable_size(block));
  int64_t most = peak;
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
  return block;
}

void uncount(void* block) noexcept {
  if (block != nullptr) live -= static_cast<int64_t>(malloc_usable_size(block));
  std::free(block);
}

}  // namespace

void* operator new(size_t bytes) { return count(std::malloc(std::max<size_t>(bytes, 1))); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  const auto to = static_cast<size_t>(alignment);
  return count(std::aligned_alloc(to, (bytes + to - 1) / to * to));
}
void operator delete(void* block) noexcept { uncount(block); }
void operator delete(void* block, size_t) noexcept { uncount(block); }
void operator delete(void* block, std::align_val_t) noexcept { uncount(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { uncount(block); }

namespace lathe::fuzz {

AllocationWatch::AllocationWatch() : before_(live) {
  peak = before_;
  host_allocator().reset_peak();
  tensors_before_ = static_cast<int64_t>(host_allocator().stats().allocated_bytes);
}

int64_t AllocationWatch::peak_bytes() const {
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
