// The table of blocks by address, and cutting and joining of blocks.
#include "lathe/core/memory/block_pool_blocks.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace lathe {

namespace {
constexpr size_t kFirstSlots = 64;
}

Block* BlockTable::add(char* address) noexcept {
  Block* block = spare_;
  spare_ = block->next;
  --spare_count_;
  block->next = nullptr;
  block->address = address;
  insert(block);
  ++size_;
  return block;
}

void BlockTable::insert(Block* block) noexcept {
  size_t slot = slot_of(block->address);
  while (slots_[slot] != nullptr) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = block;
}

// Closes the gap: each entry behind it that may not stay where it is moves into the gap (Knuth 6.4,
// algorithm R).
void BlockTable::remove(Block* block) noexcept {
  const size_t mask = slots_.size() - 1;
  size_t gap = slot_of(block->address);
  while (slots_[gap] != block) gap = (gap + 1) & mask;
  for (size_t slot = (gap + 1) & mask; slots_[slot] != nullptr; slot = (slot + 1) & mask) {
    const size_t home = slot_of(slots_[slot]->address);
    if (((slot - home) & mask) < ((slot - gap) & mask)) continue;
    slots_[gap] = slots_[slot];
    gap = slot;
  }
  slots_[gap] = nullptr;
  --size_;
  FreeSet::node_type node = std::move(block->node);
  *block = Block{};
  block->node = std::move(node);
  block->next = spare_;
  spare_ = block;
  ++spare_count_;
}

void BlockTable::grow(size_t count) {
  while (spare_count_ < count) {
    FreeSet one;  // a set makes nodes only by inserting: insert one and extract it
    FreeSet::node_type node = one.extract(one.insert(FreeKey{}).first);
    Block& block = storage_.emplace_back();
    block.node = std::move(node);
    block.next = spare_;
    spare_ = &block;
    ++spare_count_;
  }
  const size_t slots = std::bit_ceil(std::max(kFirstSlots, 2 * (size_ + count)));
  if (slots <= slots_.size()) return;
  std::vector<Block*> old(slots, nullptr);
  old.swap(slots_);
  shift_ = 64 - std::countr_zero(slots);
  for (Block* block : old) {
    if (block != nullptr) insert(block);
  }
}

Block* split_block(BlockTable& table, Block* block, size_t bytes) noexcept {
  Block* rest = table.add(block->address + bytes);
  rest->bytes = block->bytes - bytes;
  rest->segment = block->segment;
  rest->state = block->state;
  rest->previous = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  block->bytes = bytes;
  return rest;
}

void merge_blocks(BlockTable& table, Block* left, Block* right) noexcept {
  left->bytes += right->bytes;
  left->next = right->next;
  if (left->next != nullptr) left->next->previous = left;
  table.remove(right);
}

}  // namespace lathe
