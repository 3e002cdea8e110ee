// Checks the inside of a BlockPool against the invariants of its design, computing everything anew
// from the blocks: nothing here trusts the pool's own sums.
//
//   I1  blocks tile each segment; links, table and addresses agree
//   I2  no two neighbours are both free, or both unmapped
//   I4  the sums of block sizes are the statistics; peaks are at least the current values
//   I5  the free sets hold exactly the free blocks, in the right arena and under the right key
//   I6  a block that waits is in no free set, and is linked as waiting
//
// (I3, I7-I10 are seen from outside: tests/core/block_pool_property_test.cpp and the fake device.)
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lathe/core/memory/block_pool.h"

namespace lathe {

class BlockPoolInspector {
 public:
  /// The first invariant that does not hold, or "".
  static std::string check(const BlockPool& pool);

  struct LiveBlock {
    const void* address;
    size_t bytes, requested;
    bool operator==(const LiveBlock&) const = default;
  };
  /// In the order of segments and addresses.
  static std::vector<LiveBlock> live_blocks(const BlockPool& pool);

  /// All blocks as text: address, size, state.
  static std::string layout(const BlockPool& pool);

  static size_t arenas(const BlockPool& pool);
  static size_t table_size(const BlockPool& pool);
};

}  // namespace lathe
