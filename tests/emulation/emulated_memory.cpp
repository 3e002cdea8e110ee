// See emulated_memory.h. AddressSanitizer is told which bytes are in no block.
#include "emulated_memory.h"

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

EmulatedMemory::EmulatedMemory(size_t bytes) : bytes_(bytes) {
  const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const mapped = mmap(nullptr, bytes + kPageBytes, PROT_NONE, kind, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  mapped_ = static_cast<char*>(mapped);
  start_ = mapped_ + (-reinterpret_cast<uintptr_t>(mapped) & (kPageBytes - 1));
  // protect() walks through all pages: of few large ones it takes a fiftieth of the time.
  madvise(start_, bytes, MADV_HUGEPAGE);
}

EmulatedMemory::~EmulatedMemory() { munmap(mapped_, bytes_ + kPageBytes); }

void* EmulatedMemory::allocate(size_t bytes) {
  const size_t size = round_up(bytes, kAlignBytes);
  size_t begin = 0;
  for (const auto& [offset, live] : live_) {
    if (offset - begin >= size) break;
    begin = offset + round_up(live.bytes, kAlignBytes);
  }
  if (size < bytes || size > bytes_ || begin > bytes_ - size) return nullptr;
  live_.emplace(begin, Live{bytes, ++births_});
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

bool EmulatedMemory::deallocate(void* block) {
  const auto at = live_.find(static_cast<size_t>(static_cast<char*>(block) - start_));
  if (at == live_.end()) return false;
  poison(block, at->second.bytes);
  live_bytes_ -= at->second.bytes;
  live_.erase(at);
  return true;
}

bool EmulatedMemory::owns(const void* memory) const {
  const char* p = static_cast<const char*>(memory);
  return p >= start_ && p < start_ + bytes_;
}

std::pair<const void*, size_t> EmulatedMemory::block_of(const void* memory) const {
  if (!owns(memory)) return {};
  const auto offset = static_cast<size_t>(static_cast<const char*>(memory) - start_);
  auto at = live_.upper_bound(offset);
  if (at == live_.begin()) return {};
  --at;
  if (offset > at->first + at->second.bytes) return {};
  return {start_ + at->first, at->second.bytes};
}

uint64_t EmulatedMemory::birth_of(const void* memory) const {
  const auto [block, size] = block_of(memory);
  if (block == nullptr) return 0;
  return live_.at(static_cast<size_t>(static_cast<const char*>(block) - start_)).birth;
}

bool EmulatedMemory::holds(const void* memory, size_t bytes) const {
  const auto [block, size] = block_of(memory);
  if (block == nullptr) return false;
  const auto offset = static_cast<const char*>(memory) - static_cast<const char*>(block);
  return static_cast<size_t>(offset) + bytes <= size;
}

void EmulatedMemory::open() {
  if (depth_++ == 0) protect(PROT_READ | PROT_WRITE);
}
void EmulatedMemory::close() {
  if (--depth_ == 0) protect(PROT_NONE);
}

/// Only what was ever in use: the rest is out of reach anyway.
void EmulatedMemory::protect(int access) {
  if (reached_ > 0) mprotect(start_, reached_, access);
}

}  // namespace lathe::emulation
