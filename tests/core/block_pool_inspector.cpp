// The invariants of a pool; see block_pool_inspector.h.
#include "block_pool_inspector.h"

#include <map>

#include "lathe/core/format.h"

namespace lathe {

namespace {

struct Sums {
  size_t blocks = 0, free = 0, waiting = 0;
  size_t live_count = 0, live = 0, requested = 0, active = 0, split = 0, reserved = 0;
  std::map<const Arena*, size_t> segments;
};

std::string at(const char* what, const Block& block) {
  return concat(what, " (block of ", block.bytes, " bytes, state ", static_cast<int>(block.state),
                ")");
}

std::string check_block(const Block& block, Sums& sums) {
  const Segment& segment = *block.segment;
  const Block* next = block.next;
  ++sums.blocks;
  if (block.bytes == 0) return at("I1: an empty block", block);
  const bool merges = block.state == BlockState::kFree || block.state == BlockState::kUnmapped;
  if (next != nullptr && merges && next->state == block.state) {
    return at("I2: neighbours not merged", block);
  }
  if (block.state != BlockState::kUnmapped) sums.reserved += block.bytes;
  if (block.state == BlockState::kLive) {
    if (block.requested > block.bytes) return at("a block smaller than the request", block);
    ++sums.live_count;
    sums.live += block.bytes;
    sums.requested += block.requested;
    sums.active += block.bytes;
  } else if (block.state == BlockState::kWaiting) {
    if (block.uses == nullptr || block.open_uses == 0) return at("I6: waits for nothing", block);
    ++sums.waiting;
    sums.active += block.bytes;
  } else if (block.uses != nullptr || block.tag != nullptr) {
    return at("an idle block with a tag or uses", block);
  }
  if (block.state == BlockState::kFree) {
    ++sums.free;
    if (block.is_split()) sums.split += block.bytes;
    const FreeKey& key = *block.place;
    if (key.block != &block || key.bytes != block.bytes || key.address != block.address ||
        key.stream != segment.stream)
      return at("I5: a free block under a wrong key", block);
  } else if (block.node.empty()) {
    return at("I6: a block in use is in a free set", block);
  }
  return "";
}

std::string check_gauge(const char* name, const PoolGauge& gauge, size_t expected) {
  if (gauge.current != expected)
    return concat("I4: ", name, " is ", gauge.current, ", the blocks say ", expected);
  if (gauge.peak < gauge.current) return concat("I4: the peak of ", name, " is below its value");
  return "";
}

}  // namespace

std::string BlockPoolInspector::check(const BlockPool& pool) {
  const std::lock_guard lock(pool.mutex_);
  Sums sums;
  for (const Segment& segment : pool.segments_) {
    ++sums.segments[segment.arena];
    const char* expected = segment.base;
    const Block* previous = nullptr;
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      if (block->address != expected || block->previous != previous || block->segment != &segment)
        return at("I1: a gap, an overlap or a wrong link", *block);
      if (pool.blocks_.find(block->address) != block) return at("I1: not in the table", *block);
      if (std::string broken = check_block(*block, sums); !broken.empty()) return broken;
      expected += block->bytes;
      previous = block;
    }
    if (expected != segment.base + segment.bytes) return "I1: the blocks do not fill the segment";
  }
  if (pool.blocks_.size() != sums.blocks) return "I1: the table holds other blocks";

  size_t in_sets = 0;
  for (const auto& [id, arena] : pool.arenas_) {
    if (arena.segments != sums.segments[&arena]) return "I4: an arena's number of segments";
    for (const bool small : {true, false}) {
      for (const FreeKey& key : small ? arena.free_small : arena.free_large) {
        ++in_sets;
        const Block& block = *key.block;
        if (block.state != BlockState::kFree || block.segment->arena != &arena ||
            block.segment->small != small)
          return at("I5: in a wrong free set", block);
      }
    }
  }
  if (in_sets != sums.free) return "I5: the free sets miss blocks";
  size_t waiting = 0;
  for (const Block* b = pool.uses_.oldest_; b != nullptr; b = b->next_waiting) {
    ++waiting;
    if (b->state != BlockState::kWaiting) return at("I6: waits but is not so marked", *b);
  }
  if (waiting != sums.waiting) return "I6: the list of waiting blocks misses some";

  const BlockPoolStats& s = pool.stats_;
  for (const std::string& broken :
       {check_gauge("allocations", s.allocations, sums.live_count),
        check_gauge("allocated_bytes", s.allocated_bytes, sums.live),
        check_gauge("requested_bytes", s.requested_bytes, sums.requested),
        check_gauge("active_bytes", s.active_bytes, sums.active),
        check_gauge("inactive_split_bytes", s.inactive_split_bytes, sums.split),
        check_gauge("reserved_bytes", s.reserved_bytes, sums.reserved),
        check_gauge("segments", s.segments, pool.segments_.size())}) {
    if (!broken.empty()) return broken;
  }
  return "";
}

std::vector<BlockPoolInspector::LiveBlock> BlockPoolInspector::live_blocks(const BlockPool& pool) {
  const std::lock_guard lock(pool.mutex_);
  std::vector<LiveBlock> live;
  for (const Segment& segment : pool.segments_) {
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      if (block->state == BlockState::kLive)
        live.push_back({block->address, block->bytes, block->requested});
    }
  }
  return live;
}

std::string BlockPoolInspector::layout(const BlockPool& pool) {
  const std::lock_guard lock(pool.mutex_);
  std::string text;
  for (const Segment& segment : pool.segments_) {
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      append_text(text, concat(reinterpret_cast<uintptr_t>(block->address), "+", block->bytes,
                               "FLWU"[static_cast<int>(block->state)], " "));
    }
  }
  return text;
}

size_t BlockPoolInspector::arenas(const BlockPool& pool) {
  const std::lock_guard lock(pool.mutex_);
  return pool.arenas_.size();
}

size_t BlockPoolInspector::table_size(const BlockPool& pool) {
  const std::lock_guard lock(pool.mutex_);
  return pool.blocks_.size();
}

}  // namespace lathe
