// Many small dense arrays in one kernel launch: parameters with their gradients and buffers, or the
// gradients that are clipped. For .cu files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lathe/core/error.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/optim/update.h"

namespace lathe::optim {

/// One block works on kChunk elements (update.h) of one item.
inline constexpr unsigned kChunkThreads = 256;

/// One item: kArrays dense arrays of n elements each.
template <int kArrays>
struct ArrayItem {
  int64_t n;
  void* array[kArrays];
};

/// The items of one launch, passed as the kernel's parameters (limit: 4 KiB). So there is no table
/// in device memory, nothing to copy, and nothing that must outlive the call. Block b works on one
/// chunk of one item.
template <int kArrays>
struct ArrayTable {
  static constexpr int kCapacity = 3840 / static_cast<int>(sizeof(ArrayItem<kArrays>) + 4);

  ArrayItem<kArrays> item[kCapacity];
  unsigned first_block[kCapacity];  // of each item
  int count = 0;
  unsigned blocks = 0;

  /// The item that block b works on: the last one that starts at or before b.
  LATHE_HD int item_of(unsigned b) const {
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (first_block[middle] <= b) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

/// What one block works on: elements begin to end of item number `item`.
struct Chunk {
  int item;
  int64_t begin, end;
};
template <int kArrays>
__device__ Chunk chunk_of_block(const ArrayTable<kArrays>& table) {
  const int item = table.item_of(blockIdx.x);
  const int64_t begin = static_cast<int64_t>(blockIdx.x - table.first_block[item]) * kChunk;
  const int64_t n = table.item[item].n;
  return {item, begin, n - begin < kChunk ? n : begin + kChunk};
}

/// Calls launch_table(table) with tables that together hold item_at(0) … item_at(count - 1). Skips
/// empty items. Allocates nothing.
template <int kArrays, class ItemAt, class Launch>
void for_each_table(size_t count, ItemAt&& item_at, Launch&& launch_table) {
  constexpr int64_t kMostBlocks = int64_t{1} << 30;
  ArrayTable<kArrays> table;
  const auto flush = [&] {
    if (table.count > 0) launch_table(static_cast<const ArrayTable<kArrays>&>(table));
    table.count = 0;
    table.blocks = 0;
  };
  for (size_t i = 0; i < count; ++i) {
    const ArrayItem<kArrays> item = item_at(i);
    if (item.n == 0) continue;
    const int64_t blocks = chunks_of(item.n);
    LATHE_CHECK(ValueError, blocks <= kMostBlocks, "optim: an array of ", item.n,
                " elements is too long");
    if (table.count == table.kCapacity || table.blocks + blocks > kMostBlocks) flush();
    table.item[table.count] = item;
    table.first_block[table.count] = table.blocks;
    table.blocks += static_cast<unsigned>(blocks);
    ++table.count;
  }
  flush();
}

}  // namespace lathe::optim
