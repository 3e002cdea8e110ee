// The pool's hot path: requests, free blocks, segments. Its other parts: block_pool_arenas.cpp
// (private pools), _recovery.cpp, _expandable.cpp, _events.cpp, _blocks.cpp, _snapshot.cpp.
#include "lathe/core/memory/block_pool.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <utility>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/core/log.h"

namespace lathe {

namespace {

constexpr size_t kLargestRequest = size_t{1} << 62;  // rounding up to here cannot overflow

BlockPoolOptions checked(BlockPoolOptions o) {
  LATHE_CHECK(ValueError, std::has_single_bit(o.alignment),
              "BlockPool: alignment must be a power of two, got ", o.alignment);
  for (const size_t bytes : {o.small_segment, o.large_segment, o.segment_step}) {
    LATHE_CHECK(ValueError, bytes > 0 && bytes % o.alignment == 0 && bytes < kLargestRequest,
                "BlockPool: segment sizes must be multiples of the alignment ", o.alignment,
                ", got ", bytes);
  }
  LATHE_CHECK(ValueError,
              o.small_request <= std::min(o.small_segment, o.large_segment) &&
                  o.own_segment <= o.large_segment,
              "BlockPool: requests of ", o.small_request, " and below ", o.own_segment,
              " bytes must fit segments of ", o.small_segment, " and ", o.large_segment, " bytes");
  return o;
}

}  // namespace

BlockPool::BlockPool(RawMemory& memory, BlockPoolOptions options)
    : memory_(memory),
      options_(checked(std::move(options))),
      default_arena_(&arenas_[0]),
      uses_(memory) {
  history_.reset(options_.history);
  const size_t total = grows_in_place() ? memory_.mem_info().total_bytes : 0;
  range_bytes_ = total + total / 8;
}

BlockPool::~BlockPool() {
  const Lock lock(mutex_);
  if (memory_.is_alive() && !capture_underway(nullptr)) release_at_end();
  for (const Segment& segment : segments_) {
    for (Block* block = segment.first; block != nullptr; block = block->next) uses_.forget(block);
  }
}

void* BlockPool::allocate(size_t bytes, StreamHandle stream, const char* tag) {
  if (bytes == 0) return nullptr;
  Lock lock(mutex_);
  const size_t size = rounded(bytes);
  const Request request{bytes, size, stream, tag, size <= options_.small_request};
  if (bytes > kLargestRequest || fault_.hit()) [[unlikely]]
    throw_out_of_memory(request);
  Block* block = take_free(request);
  if (block == nullptr) [[unlikely]]
    block = allocate_slow(lock, request);
  block->state = BlockState::kLive;
  block->requested = bytes;
  block->tag = tag;
  stats_.allocations.add(1);
  stats_.allocated_bytes.add(block->bytes);
  stats_.requested_bytes.add(bytes);
  stats_.active_bytes.add(block->bytes);
  history_.add(PoolEvent::Kind::kAllocate, block->address, block->bytes, stream, tag);
  return block->address;
}

Block* BlockPool::allocate_slow(Lock& lock, const Request& request) {
  LATHE_CHECK(StateError, memory_.is_alive(), options_.name, ": cannot allocate ",
              readable_bytes(request.bytes), " after the driver was shut down");
  if (collect(request.stream)) {
    if (Block* block = take_free(request)) return block;
  }
  if (Block* block = grow(request, segment_bytes(request))) return block;
  return recover(lock, request);
}

void BlockPool::deallocate(void* address) noexcept {
  if (address == nullptr) return;
  Lock lock(mutex_);
  Block* block = blocks_.find(address);
  if (block == nullptr || block->state != BlockState::kLive) [[unlikely]]
    return report_misuse(lock, block == nullptr, address);
  history_.add(PoolEvent::Kind::kDeallocate, address, block->bytes, block->segment->stream,
               block->tag);
  stats_.allocations.remove(1);
  stats_.allocated_bytes.remove(block->bytes);
  stats_.requested_bytes.remove(block->requested);
  if (block->uses != nullptr) [[unlikely]] {
    if (memory_.is_alive()) {
      block->state = BlockState::kWaiting;
      return capture_touches(block) ? uses_.park(block) : uses_.wait(block);
    }
    uses_.forget(block);  // the driver is shut down: nothing uses the memory any more
  }
  make_free(block);
}

bool BlockPool::holds(const void* address) const {
  const Lock lock(mutex_);
  const Block* block = blocks_.find(address);
  return block != nullptr && block->state == BlockState::kLive;
}

void BlockPool::record_stream(void* address, StreamHandle stream) {
  if (address == nullptr) return;
  const Lock lock(mutex_);
  Block* block = blocks_.find(address);
  LATHE_CHECK(ValueError, block != nullptr && block->state == BlockState::kLive, options_.name,
              ": record_stream of an address that is no live block of this pool");
  if (stream != block->segment->stream && memory_.is_alive()) uses_.add(block, stream);
}

// Logged once per pool, because a program that frees wrongly does it many times.
void BlockPool::report_misuse(Lock& lock, bool foreign, const void* address) noexcept {
  if (std::exchange(misuse_reported_, true)) return;
  lock.unlock();  // handlers may allocate
  char text[200];
  std::snprintf(text, sizeof text, "%.80s: deallocate(%p): %s", options_.name.c_str(), address,
                foreign ? "not the address of a block of this pool" : "the block is free already");
  log(LogLevel::kError, text);
}

size_t BlockPool::rounded(size_t bytes) const {
  if (bytes > kLargestRequest || !options_.cache) return bytes;
  if (options_.rounding == BlockPoolOptions::Rounding::kPowerOfTwo)
    return std::max(options_.alignment, std::bit_ceil(bytes));
  return (bytes + options_.alignment - 1) & ~(options_.alignment - 1);
}

size_t BlockPool::segment_bytes(const Request& request) const {
  if (!options_.cache) return request.size;
  if (request.small) return options_.small_segment;
  if (request.size < options_.own_segment) return options_.large_segment;
  return smallest_segment(request);
}

size_t BlockPool::smallest_segment(const Request& request) const {
  if (!options_.cache) return request.size;
  const size_t step = options_.segment_step;
  return round_up(request.size, step);
}

Block* BlockPool::take_free(const Request& request) {
  blocks_.reserve(1);  // to split
  FreeSet& set = arena_for(request.stream).free_set(request.small);
  const auto best = set.lower_bound({request.stream, request.size, nullptr, nullptr});
  if (best == set.end() || best->stream != request.stream) return nullptr;
  if (best->bytes >= options_.max_split) {
    const bool wasteful = best->bytes - request.size >= options_.large_segment;
    if (request.size < options_.max_split || wasteful) return nullptr;
  }
  Block* block = best->block;
  remove_free(block);
  return cut(block, request);
}

// Splits off what the request does not need, if that is worth keeping. The block is in no set.
Block* BlockPool::cut(Block* block, const Request& request) noexcept {
  const size_t rest = block->bytes - request.size;
  const bool worth = request.small ? rest >= options_.alignment : rest > options_.small_request;
  if (worth && options_.cache && block->bytes < options_.max_split)
    insert_free(split_block(blocks_, block, request.size));
  return block;
}

// A block from a new segment, or null. Whatever may throw comes before the call of the device.
Block* BlockPool::grow(const Request& request, size_t segment_bytes) {
  blocks_.reserve(3);  // for the segment, the rest of a gap and the rest of the block
  if (grows_in_place()) return grow_in_place(request);
  if (!within_limit(segment_bytes)) return nullptr;
  Arena& arena = arena_for(request.stream);
  std::list<Segment> fresh(1);
  void* base = memory_.allocate(segment_bytes);
  if (base == nullptr) return nullptr;
  stats_.reserved_bytes.add(segment_bytes);
  history_.add(PoolEvent::Kind::kReserve, base, segment_bytes, request.stream, request.tag);
  return cut(add_segment(fresh, arena, request, static_cast<char*>(base), segment_bytes), request);
}

// Enters a segment and its one block, which is in no set.
Block* BlockPool::add_segment(std::list<Segment>& fresh, Arena& arena, const Request& request,
                              char* base, size_t bytes) noexcept {
  Segment& segment = fresh.front();
  segments_.splice(segments_.end(), fresh);
  segment.place = std::prev(segments_.end());
  segment.base = base;
  segment.bytes = bytes;
  segment.stream = request.stream;
  segment.arena = &arena;
  segment.small = request.small;
  ++arena.segments;
  stats_.segments.add(1);
  Block* block = blocks_.add(base);
  block->bytes = bytes;
  block->segment = &segment;
  segment.first = block;
  return block;
}

// Forgets the segment that `whole` fills. The block is in no set.
void BlockPool::drop_segment(Block* whole) noexcept {
  Segment* segment = whole->segment;
  --segment->arena->segments;
  stats_.segments.remove(1);
  blocks_.remove(whole);
  segments_.erase(segment->place);
}

bool BlockPool::within_limit(size_t bytes) const noexcept {
  const size_t limit = stats_.limit_bytes, reserved = stats_.reserved_bytes.current;
  return limit == 0 || (bytes <= limit && reserved <= limit - bytes);
}

void BlockPool::insert_free(Block* block) noexcept {
  const Segment& segment = *block->segment;
  block->state = BlockState::kFree;
  block->node.value() = {segment.stream, block->bytes, block->address, block};
  block->place = segment.arena->free_set(segment.small).insert(std::move(block->node)).position;
  if (block->is_split()) stats_.inactive_split_bytes.add(block->bytes);
}

void BlockPool::remove_free(Block* block) noexcept {
  if (block->is_split()) stats_.inactive_split_bytes.remove(block->bytes);
  const Segment& segment = *block->segment;
  block->node = segment.arena->free_set(segment.small).extract(block->place);
}

// Frees a block that was given back and that no stream uses any more: joins its free neighbours.
void BlockPool::make_free(Block* block) noexcept {
  stats_.active_bytes.remove(block->bytes);
  block->requested = 0;
  block->tag = nullptr;
  block = merge_free_neighbours(block);
  insert_free(block);
  if (!options_.cache) release_uncached(block);
}

Block* BlockPool::merge_free_neighbours(Block* block) noexcept {
  if (Block* next = block->next; next != nullptr && next->state == BlockState::kFree) {
    remove_free(next);
    merge_blocks(blocks_, block, next);
  }
  if (Block* previous = block->previous;
      previous != nullptr && previous->state == BlockState::kFree) {
    remove_free(previous);
    merge_blocks(blocks_, previous, block);
    block = previous;
  }
  return block;
}

void BlockPool::make_free_all(Block* waiting) noexcept {
  while (waiting != nullptr) {
    Block* block = std::exchange(waiting, waiting->next_waiting);
    block->next_waiting = nullptr;
    history_.add(PoolEvent::Kind::kReady, block->address, block->bytes, block->segment->stream,
                 block->tag);
    make_free(block);
  }
}

// Frees the blocks that need not wait any more; does not wait itself. True if there were any.
bool BlockPool::collect(StreamHandle stream) {
  if (!uses_.any_waiting()) return false;
  Block* done = nullptr;
  if (capture_underway(stream)) {
    if (uses_.any_parked()) done = uses_.collect_joined(&arena_for(stream), stream);
  } else {
    if (uses_.any_parked()) uses_.unpark();
    done = uses_.collect_done();
  }
  make_free_all(done);
  return done != nullptr;
}

// True if the device is now known to be idle; then no block waits any more.
bool BlockPool::synchronize_and_collect() noexcept {
  if (!memory_.synchronize()) return false;
  make_free_all(uses_.collect_all());
  return true;
}

}  // namespace lathe
