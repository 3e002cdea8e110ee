// Workspace: memory for the length of one call of a library that works on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/hooks/memory_use.h"

namespace lathe::cuda {

/// A block of the caching allocator for the current stream; null for 0 bytes. It may be destroyed
/// while work that uses it is still queued: the next user of the memory is on the same stream,
/// after that work. So calls share the memory, and in a stream capture the block is one of the
/// graph's.
class Workspace {
 public:
  /// throws: OutOfMemoryError.
  Workspace(int64_t bytes, Device device)
      : bytes_(static_cast<size_t>(bytes)),
        allocator_(device_allocator(device)),
        block_(bytes_ == 0 ? nullptr : allocator_.allocate(bytes_)),
        counted_(bytes, device, profile::MemoryTag::kWorkspace) {}
  ~Workspace() {
    if (block_ != nullptr) allocator_.deallocate(block_, bytes_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  void* get() const { return block_; }

 private:
  const size_t bytes_;
  Allocator& allocator_;
  void* const block_;
  const profile::CountedMemory counted_;
};

}  // namespace lathe::cuda
