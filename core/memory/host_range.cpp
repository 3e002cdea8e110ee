// Addresses by mmap, memory by mprotect: core/memory/system_memory.h makes the calls.
#include "lathe/core/memory/host_range.h"

#include <new>
#include <utility>

#include "lathe/core/memory/system_memory.h"

namespace lathe {

HostRange::HostRange(std::function<bool(size_t)> take, std::function<void(size_t)> give)
    : take_(std::move(take)),
      give_(std::move(give)),
      has_range_(!system_memory::addresses_are_limited()) {}

void* HostRange::allocate(size_t bytes) noexcept {
  if (!take_(bytes)) return nullptr;
  void* block = system_memory::allocate(bytes);
  if (block != nullptr) {
    try {
      segments_.emplace(block, bytes);
      return block;
    } catch (const std::bad_alloc&) {
      system_memory::release(block, bytes);
    }
  }
  give_(bytes);
  return nullptr;
}

void HostRange::deallocate(void* block) noexcept {
  const auto segment = segments_.find(block);
  const size_t bytes = segment->second;
  segments_.erase(segment);
  system_memory::unpoison(block, bytes);
  system_memory::release(block, bytes);
  give_(bytes);
}

MemoryInfo HostRange::mem_info() noexcept {
  const size_t total = system_memory::physical_bytes();
  return {.free_bytes = total, .total_bytes = total};
}

size_t HostRange::granularity() const noexcept { return system_memory::kHugePage; }

void* HostRange::reserve(size_t bytes) noexcept { return system_memory::reserve(bytes); }

void HostRange::unreserve(void* base, size_t bytes) noexcept {
  system_memory::unreserve(base, bytes);
}

// The memory has no name of its own: the addresses that get it are its name.
PhysicalMemory HostRange::create(size_t bytes) noexcept { return take_(bytes) ? 1 : 0; }

bool HostRange::map(void* address, size_t bytes, PhysicalMemory) noexcept {
  if (system_memory::commit(address, bytes)) return true;
  give_(bytes);
  return false;
}

void HostRange::unmap(void* address, size_t bytes) noexcept {
  system_memory::unpoison(address, bytes);
  system_memory::decommit(address, bytes);
  give_(bytes);
}

}  // namespace lathe
