// See device_arena.h. AddressSanitizer is told which bytes are in no block.
#include "device_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>

#include "lathe/core/ceil_div.h"
#include "lathe/core/config.h"

#if defined(LATHE_ASAN)
#  include <sanitizer/asan_interface.h>
#endif

namespace lathe::emulation {

namespace {

constexpr size_t kAlignBytes = 512, kPageBytes = size_t{2} << 20;  // huge ones
constexpr size_t kFilledBytes = size_t{4} << 20;  // a block may be larger than the machine's memory

void poison([[maybe_unused]] void* p, [[maybe_unused]] size_t bytes) {
#if defined(LATHE_ASAN)
  __asan_poison_memory_region(p, bytes);
#endif
}
void unpoison([[maybe_unused]] void* p, [[maybe_unused]] size_t bytes) {
#if defined(LATHE_ASAN)
  __asan_unpoison_memory_region(p, bytes);
#endif
}

}  // namespace

Arena::Arena(size_t bytes) : bytes_(bytes) {
  const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const mapped = mmap(nullptr, bytes + kPageBytes, PROT_NONE, kind, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  mapped_ = static_cast<char*>(mapped);
  start_ = mapped_ + (-reinterpret_cast<uintptr_t>(mapped) & (kPageBytes - 1));
  // protect() walks through all pages: of few large ones it takes a fiftieth of the time.
  madvise(start_, bytes, MADV_HUGEPAGE);
}

Arena::~Arena() { munmap(mapped_, bytes_ + kPageBytes); }

void* Arena::allocate(size_t bytes) {
  const size_t size = round_up(bytes, kAlignBytes);
  size_t begin = 0;
  for (const auto& [offset, live] : live_) {
    if (offset - begin >= size) break;
    begin = offset + round_up(live, kAlignBytes);
  }
  if (size < bytes || size > bytes_ || begin > bytes_ - size) return nullptr;
  live_.emplace(begin, bytes);
  const size_t reached = std::min(bytes_, round_up(begin + size, kPageBytes));
  if (reached > reached_) {
    poison(start_ + reached_, reached - reached_);
    reached_ = reached;
  }
  live_bytes_ += bytes;
  char* block = start_ + begin;
  unpoison(block, bytes);
  open();
  std::memset(block, 0xA5, std::min(bytes, kFilledBytes));
  close();
  return block;
}

bool Arena::deallocate(void* block) {
  const auto at = live_.find(static_cast<size_t>(static_cast<char*>(block) - start_));
  if (at == live_.end()) return false;
  poison(block, at->second);
  live_bytes_ -= at->second;
  live_.erase(at);
  return true;
}

bool Arena::holds(const void* memory, size_t bytes) const {
  const char* p = static_cast<const char*>(memory);
  if (p < start_ || p >= start_ + bytes_) return false;
  const auto offset = static_cast<size_t>(p - start_);
  auto at = live_.upper_bound(offset);
  if (at == live_.begin()) return false;
  --at;
  return offset + bytes <= at->first + at->second;
}

void Arena::open() {
  if (depth_++ == 0) protect(PROT_READ | PROT_WRITE);
}
void Arena::close() {
  if (--depth_ == 0) protect(PROT_NONE);
}

/// Only what was ever in use: the rest is out of reach anyway.
void Arena::protect(int access) {
  if (reached_ > 0) mprotect(start_, reached_, access);
}

}  // namespace lathe::emulation
