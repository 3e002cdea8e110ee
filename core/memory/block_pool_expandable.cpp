// Expandable segments of core/memory/block_pool: one range of addresses per arena, stream and kind
// of request (small or large). Granules of memory are mapped where a request needs them. A free
// block before unmapped addresses grows in place, so no memory is cached in segments that are too
// small for the next request. Whole granules inside a free block can return to the device while the
// segment is in use.
//
// Blocks tile the whole range. Those without memory are kUnmapped: they are in no free set, and
// merge only with each other.
#include <algorithm>
#include <list>

#include "lathe/core/ceil_div.h"
#include "lathe/core/memory/block_pool.h"

namespace lathe {

namespace {

size_t free_before(const Block* gap) {
  const Block* before = gap->previous;
  return before != nullptr && before->state == BlockState::kFree ? before->bytes : 0;
}

}  // namespace

bool BlockPool::grows_in_place() const noexcept {
  return options_.expandable && options_.cache && memory_.virtual_memory() != nullptr;
}

// A block with newly mapped memory; or null, and then nothing has changed.
Block* BlockPool::grow_in_place(const Request& request) {
  const size_t granule = memory_.virtual_memory()->granularity();
  Block* gap = find_gap(request);
  if (gap == nullptr) gap = reserve_range(request);
  if (gap == nullptr) return nullptr;
  const size_t bytes = round_up(request.size - free_before(gap), granule);
  if (!within_limit(bytes) || !map_granules(gap->address, bytes)) {
    if (gap->is_whole_segment()) drop_range(gap);
    return nullptr;
  }
  stats_.reserved_bytes.add(bytes);
  history_.add(PoolEvent::Kind::kReserve, gap->address, bytes, request.stream, request.tag);
  if (bytes < gap->bytes) split_block(blocks_, gap, bytes);
  Block* block = merge_free_neighbours(gap);  // before it is marked free: it is in no set
  block->state = BlockState::kFree;
  return cut(block, request);
}

// The first unmapped block that has enough room together with the free block before it.
Block* BlockPool::find_gap(const Request& request) {
  const Arena* arena = &arena_for(request.stream);
  for (const Segment& segment : segments_) {
    if (!segment.expandable || segment.arena != arena || segment.stream != request.stream ||
        segment.small != request.small)
      continue;
    for (Block* block = segment.first; block != nullptr; block = block->next) {
      if (block->state == BlockState::kUnmapped &&
          free_before(block) + block->bytes >= request.size)
        return block;
    }
  }
  return nullptr;
}

// A new range, all of it one unmapped block. It has an eighth more addresses than the device has
// memory, because holes between blocks in use may be too small for a request.
Block* BlockPool::reserve_range(const Request& request) {
  const size_t granule = memory_.virtual_memory()->granularity();
  const size_t bytes = round_up(range_bytes_, granule);
  if (bytes < request.size) return nullptr;
  Arena& arena = arena_for(request.stream);
  std::list<Segment> fresh(1);
  void* base = memory_.virtual_memory()->reserve(bytes);
  if (base == nullptr) return nullptr;
  Block* gap = add_segment(fresh, arena, request, static_cast<char*>(base), bytes);
  gap->segment->expandable = true;
  gap->state = BlockState::kUnmapped;
  return gap;
}

void BlockPool::drop_range(Block* gap) noexcept {
  memory_.virtual_memory()->unreserve(gap->address, gap->bytes);
  drop_segment(gap);
}

// Maps memory granule by granule. If one is refused, unmaps those before it.
bool BlockPool::map_granules(char* address, size_t bytes) noexcept {
  VirtualMemory& memory = *memory_.virtual_memory();
  const size_t granule = memory.granularity();
  for (size_t done = 0; done < bytes; done += granule) {
    const PhysicalMemory piece = memory.create(granule);
    const bool mapped = piece != 0 && memory.map(address + done, granule, piece);
    if (piece != 0) memory.destroy(piece);  // the mapping keeps it from here on
    if (mapped) continue;
    if (done > 0) memory.unmap(address, done);
    return false;
  }
  return true;
}

// Returns the whole granules inside a free block. The device must have been idle since the block
// was freed, because unmapping does not wait.
void BlockPool::unmap_granules(Block* block) {
  const size_t granule = memory_.virtual_memory()->granularity();
  const size_t offset = static_cast<size_t>(block->address - block->segment->base);
  const size_t begin = round_up(offset, granule);
  const size_t end = (offset + block->bytes) / granule * granule;
  if (begin >= end) return;
  blocks_.reserve(2);
  remove_free(block);
  Block* gap = begin > offset ? split_block(blocks_, block, begin - offset) : block;
  Block* tail = end - begin < gap->bytes ? split_block(blocks_, gap, end - begin) : nullptr;
  history_.add(PoolEvent::Kind::kRelease, gap->address, gap->bytes, gap->segment->stream, nullptr);
  memory_.virtual_memory()->unmap(gap->address, gap->bytes);
  stats_.reserved_bytes.remove(gap->bytes);
  gap->state = BlockState::kUnmapped;
  if (gap != block) insert_free(block);
  if (tail != nullptr) insert_free(tail);
  if (Block* next = gap->next; next != nullptr && next->state == BlockState::kUnmapped)
    merge_blocks(blocks_, gap, next);
  if (Block* before = gap->previous; before != nullptr && before->state == BlockState::kUnmapped) {
    merge_blocks(blocks_, before, gap);
    gap = before;
  }
  if (gap->is_whole_segment()) drop_range(gap);
}

}  // namespace lathe
