// The parts of core/memory/block_pool: blocks that tile segments, the ordered sets of free blocks,
// the table from addresses to blocks, and arenas (the default pool and each private one). Nothing
// here touches the memory that it describes, nor the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <set>
#include <vector>

#include "lathe/core/memory/raw_memory.h"

namespace lathe {

struct Arena;
struct Block;
struct StreamUse;  // core/memory/block_pool_events.h

enum class BlockState : uint8_t {
  kFree,      // in a free set
  kLive,      // in the caller's hands
  kWaiting,   // given back, but other streams may still be using it
  kUnmapped,  // addresses of an expandable segment with no memory behind them
};

/// The order of the free sets. The best fit is the first block of the stream that is large enough;
/// among equal ones that with the lowest address.
struct FreeKey {
  StreamHandle stream;
  size_t bytes;
  char* address;
  Block* block;

  bool operator<(const FreeKey& other) const {
    if (stream != other.stream) return uintptr_t(stream) < uintptr_t(other.stream);
    if (bytes != other.bytes) return bytes < other.bytes;
    return uintptr_t(address) < uintptr_t(other.address);
  }
};
using FreeSet = std::set<FreeKey>;

/// Memory taken from the device in one piece, or a range of addresses into which memory is mapped.
struct Segment {
  char* base = nullptr;
  size_t bytes = 0;
  StreamHandle stream = nullptr;  // whose requests it serves
  Arena* arena = nullptr;
  Block* first = nullptr;  // its blocks in the order of addresses
  bool small = false;      // serves small requests
  bool expandable = false;
  std::list<Segment>::iterator place;  // in BlockPool::segments_
};

struct Block {
  char* address = nullptr;
  size_t bytes = 0;
  size_t requested = 0;  // of a live or waiting block: what was asked for
  Segment* segment = nullptr;
  Block *previous = nullptr, *next = nullptr;  // neighbours in the segment
  const char* tag = nullptr;
  StreamUse* uses = nullptr;  // by streams other than the segment's
  uint32_t open_uses = 0;     // of a waiting block: uses that are not over yet
  Block *previous_waiting = nullptr, *next_waiting = nullptr;
  BlockState state = BlockState::kFree;
  bool parked = false;  // waiting for the end of a capture; its uses have no events yet

  // The block's node for a free set. It is here while the block is in no set, so that joining a set
  // allocates nothing and cannot fail.
  FreeSet::node_type node;
  FreeSet::iterator place;

  /// True if another block that has memory shares the segment.
  bool is_split() const {
    return (previous != nullptr && previous->state != BlockState::kUnmapped) ||
           (next != nullptr && next->state != BlockState::kUnmapped);
  }
  bool is_whole_segment() const { return previous == nullptr && next == nullptr; }
};

/// Segments that share free blocks: one arena for the default pool (id 0), one per private pool.
struct Arena {
  uint64_t id = 0;
  uint64_t users = 0;  // of a private pool: begin_pool() less release_pool()
  uint64_t segments = 0;
  FreeSet free_small, free_large;

  FreeSet& free_set(bool small) { return small ? free_small : free_large; }

  /// True if free segments may go back to the device. Those of a private pool belong to its graphs.
  bool releasable() const { return id == 0 || users == 0; }
};

/// Owns all blocks, and finds one by its address (open addressing). Blocks do not move. A removed
/// block is used again, so a steady state allocates nothing.
class BlockTable {
 public:
  /// Makes sure that the next `count` calls of add() need no memory.
  /// throws: std::bad_alloc.
  void reserve(size_t count) {
    if (spare_count_ < count || 2 * (size_ + count) > slots_.size()) [[unlikely]]
      grow(count);
  }

  /// A new block at `address`. Call reserve() first.
  Block* add(char* address) noexcept;
  void remove(Block* block) noexcept;

  /// The block that begins at `address`, or null.
  Block* find(const void* address) const noexcept {
    if (size_ == 0) return nullptr;
    for (size_t slot = slot_of(address);; slot = (slot + 1) & (slots_.size() - 1)) {
      Block* block = slots_[slot];
      if (block == nullptr || block->address == address) return block;
    }
  }

  size_t size() const { return size_; }

 private:
  size_t slot_of(const void* address) const noexcept {  // Fibonacci hashing
    return (uintptr_t(address) * UINT64_C(0x9E3779B97F4A7C15)) >> shift_;
  }
  void grow(size_t count);
  void insert(Block* block) noexcept;

  std::vector<Block*> slots_;  // a power of two of them, at most half in use
  int shift_ = 64;             // 64 - log2(slots)
  size_t size_ = 0;
  std::deque<Block> storage_;
  Block* spare_ = nullptr;  // linked by `next`
  size_t spare_count_ = 0;
};

/// Cuts `block` at `bytes` and returns the rest. Neither is in a set. Needs one reserve()d block.
Block* split_block(BlockTable& table, Block* block, size_t bytes) noexcept;

/// Joins `right` to its left neighbour `left`. Neither is in a set.
void merge_blocks(BlockTable& table, Block* left, Block* right) noexcept;

}  // namespace lathe
