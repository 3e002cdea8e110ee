// HostRange: the system's memory as core/memory/block_pool sees it, for the large blocks of
// core/memory/host_allocator. One range of addresses gets memory in steps of a huge page.
#pragma once

#include <cstddef>
#include <functional>
#include <map>

#include "lathe/core/config.h"
#include "lathe/core/memory/raw_memory.h"

namespace lathe {

/// Host memory has no queued work: nothing waits, and there are no events.
///
/// Where the process may use only so many addresses (`ulimit -v`), there is no range. Memory then
/// comes in segments of the sizes that the pool asks for.
class LATHE_API HostRange final : public RawMemory, private VirtualMemory {
 public:
  /// `take` is asked before memory is taken, and `give` told what returned to the system. Both get
  /// numbers of bytes. They are called under the pool's lock, and do not throw.
  HostRange(std::function<bool(size_t)> take, std::function<void(size_t)> give);

  void* allocate(size_t bytes) noexcept override;
  void deallocate(void* block) noexcept override;
  EventHandle record(StreamHandle) noexcept override { return nullptr; }
  void release(EventHandle) noexcept override {}
  bool query(EventHandle) noexcept override { return true; }
  bool synchronize() noexcept override { return true; }
  MemoryInfo mem_info() noexcept override;
  VirtualMemory* virtual_memory() noexcept override { return has_range_ ? this : nullptr; }

 private:
  size_t granularity() const noexcept override;
  void* reserve(size_t bytes) noexcept override;
  void unreserve(void* base, size_t bytes) noexcept override;
  PhysicalMemory create(size_t bytes) noexcept override;
  void destroy(PhysicalMemory) noexcept override {}
  bool map(void* address, size_t bytes, PhysicalMemory memory) noexcept override;
  void unmap(void* address, size_t bytes) noexcept override;

  const std::function<bool(size_t)> take_;
  const std::function<void(size_t)> give_;
  const bool has_range_;
  std::map<void*, size_t> segments_;  // where there is no range: sizes by address
};

}  // namespace lathe
