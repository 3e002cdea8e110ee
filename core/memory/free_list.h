// FreeList: a stack of free memory blocks of one size, linked through the blocks themselves, so
// that it never allocates.
#pragma once

#include <cstddef>
#include <utility>

#include "lathe/core/memory/system_memory.h"

namespace lathe {

/// Not thread-safe. It is a trivial type, so that a thread_local one outlives every destructor.
/// Under AddressSanitizer blocks are poisoned while they are on the list.
class FreeList {
 public:
  size_t size() const { return size_; }

  /// Puts a block of `bytes` >= 8 bytes on top.
  void push(void* block, size_t bytes) {
    *static_cast<void**>(block) = top_;
    top_ = block;
    ++size_;
    system_memory::poison(static_cast<void**>(block) + 1, bytes - sizeof(void*));
  }

  /// Takes the top block, of `bytes` bytes, or null if the list is empty.
  void* pop(size_t bytes) {
    void* block = top_;
    if (block == nullptr) return nullptr;
    system_memory::unpoison(block, bytes);
    top_ = *static_cast<void**>(block);
    --size_;
    return block;
  }

  /// Moves up to `count` blocks of `bytes` bytes to another list.
  void move_to(FreeList& other, size_t count, size_t bytes) {
    for (; count > 0 && top_ != nullptr; --count) other.push(pop(bytes), bytes);
  }

 private:
  void* top_ = nullptr;
  size_t size_ = 0;
};

}  // namespace lathe
