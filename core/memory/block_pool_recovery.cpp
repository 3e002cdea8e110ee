// What core/memory/block_pool does when the device refuses memory. The cheapest step comes first:
//
//   1. The callbacks of add_oom_callback() run, without the lock.
//   2. Free whole segments return to the device until a new segment should fit: the smallest one
//      that is enough or, if none is, several, the largest first.
//   3. The pool waits for the device, which frees every block that waits for a stream. Then all
//      free segments return, and the pool asks once more, for the smallest segment that will do.
//   4. OutOfMemoryError, which says who holds the memory.
//
// While a capture is underway steps 1 to 3 are forbidden, so 4 comes at once.
#include <algorithm>
#include <cstdio>
#include <map>
#include <new>
#include <string_view>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/log.h"
#include "lathe/core/memory/block_pool.h"

namespace lathe {

namespace {

constexpr size_t kCalls = 5;  // how many an error names

thread_local bool in_callback = false;
struct InCallback {
  InCallback() { in_callback = true; }
  ~InCallback() { in_callback = false; }
};

}  // namespace

Block* BlockPool::recover(Lock& lock, const Request& request) {
  ++stats_.retries;
  const size_t wanted = segment_bytes(request);
  if (run_callbacks(lock, request)) {
    collect(request.stream);
    if (Block* block = take_free(request)) return block;
    if (Block* block = grow(request, wanted)) return block;
  }
  if (!capture_underway(request.stream)) {
    if (release_enough(wanted)) {
      if (Block* block = grow(request, wanted)) return block;
    }
    const bool idle = synchronize_and_collect();
    if (Block* block = take_free(request)) return block;
    release_segments({.idle = idle});
    if (Block* block = grow(request, smallest_segment(request))) return block;
  }
  throw_out_of_memory(request);
}

// True if a callback freed something. Other threads may have used the pool while it ran.
bool BlockPool::run_callbacks(Lock& lock, const Request& request) {
  if (callbacks_.empty() || in_callback || capture_underway(request.stream)) return false;
  std::vector<OutOfMemoryCallback> callbacks;
  for (const auto& [id, callback] : callbacks_) callbacks.push_back(callback);
  bool freed = false;
  lock.unlock();
  {
    const InCallback scope;
    for (const auto& callback : callbacks) freed |= callback(request.bytes);
  }
  lock.lock();
  return freed;
}

// Returns whole free segments of together at least `bytes`. False, and nothing returned, if there
// are not enough. Leaves out expandable segments: unmapping needs an idle device, as in step 3.
bool BlockPool::release_enough(size_t bytes) {
  std::vector<Block*> whole;
  size_t sum = 0;
  for (auto& [id, arena] : arenas_) {
    if (!arena.releasable()) continue;
    for (const FreeSet* set : {&arena.free_small, &arena.free_large}) {
      for (const FreeKey& key : *set) {
        if (!key.block->is_whole_segment() || key.block->segment->expandable) continue;
        whole.push_back(key.block);
        sum += key.bytes;
      }
    }
  }
  if (sum < bytes) return false;
  std::stable_sort(whole.begin(), whole.end(),
                   [](const Block* a, const Block* b) { return a->bytes < b->bytes; });
  const auto enough = std::find_if(whole.begin(), whole.end(),
                                   [&](const Block* block) { return block->bytes >= bytes; });
  if (enough != whole.end()) {
    release_segment(*enough);
    return true;
  }
  for (size_t released = 0; released < bytes; whole.pop_back()) {
    released += whole.back()->bytes;
    release_segment(whole.back());
  }
  return true;
}

void BlockPool::release_segments(ReleaseScope scope) {
  for (auto& [id, arena] : arenas_) {
    if (!arena.releasable() && !scope.private_too) continue;
    for (FreeSet* set : {&arena.free_small, &arena.free_large}) {
      for (auto at = set->begin(); at != set->end();) {
        Block* block = (at++)->block;  // moves on before the block leaves the set
        if (!block->segment->expandable) {
          if (block->is_whole_segment()) release_segment(block);
        } else if (scope.idle) {
          unmap_granules(block);
        }
      }
    }
  }
  drop_unused_arenas();
}

void BlockPool::release_segment(Block* whole) noexcept {
  remove_free(whole);
  history_.add(PoolEvent::Kind::kRelease, whole->address, whole->bytes, whole->segment->stream,
               nullptr);
  memory_.deallocate(whole->address);
  stats_.reserved_bytes.remove(whole->bytes);
  drop_segment(whole);
}

// Without caching a free block returns at once, unless a graph owns it or a capture forbids it.
void BlockPool::release_uncached(Block* block) noexcept {
  if (memory_.is_alive() && block->is_whole_segment() && block->segment->arena->releasable() &&
      !capture_underway(block->segment->stream))
    release_segment(block);
}

void BlockPool::empty_cache() {
  const Lock lock(mutex_);
  if (!memory_.is_alive()) return;
  LATHE_CHECK(StateError, !capture_underway(nullptr), options_.name,
              ": empty_cache: a graph is being captured, and nothing may be given back meanwhile");
  release_segments({.idle = synchronize_and_collect()});
}

void BlockPool::release_at_end() noexcept {
  try {
    release_segments({.idle = synchronize_and_collect(), .private_too = true});
  } catch (const std::bad_alloc&) {  // from cutting an expandable segment: the rest stays reserved
  }
  const size_t live = stats_.allocations.current;
  if (live == 0) return;
  char text[200];
  std::snprintf(text, sizeof text, "%.80s: the pool ends with blocks in use (%zu, %zu bytes)",
                options_.name.c_str(), live, stats_.allocated_bytes.current);
  log(LogLevel::kError, text);
}

uint64_t BlockPool::add_oom_callback(OutOfMemoryCallback callback) {
  LATHE_CHECK(ValueError, callback != nullptr, options_.name,
              ": add_oom_callback: the callback is empty");
  const Lock lock(mutex_);
  callbacks_.emplace(next_callback_, std::move(callback));
  return next_callback_++;
}

void BlockPool::remove_oom_callback(uint64_t id) {
  const Lock lock(mutex_);
  callbacks_.erase(id);
}

size_t BlockPool::largest_free(StreamHandle stream) {
  size_t largest = 0;
  Arena& arena = arena_for(stream);
  for (const FreeSet* set : {&arena.free_small, &arena.free_large}) {
    auto after = set->lower_bound({stream, SIZE_MAX, nullptr, nullptr});
    if (after == set->begin()) continue;
    const FreeKey& last = *std::prev(after);
    if (last.stream == stream) largest = std::max(largest, last.bytes);
  }
  return largest;
}

size_t BlockPool::available_bytes(StreamHandle stream) {
  const Lock lock(mutex_);
  size_t left = memory_.mem_info().free_bytes;
  if (stats_.limit_bytes != 0) {
    const size_t reserved = std::min(stats_.reserved_bytes.current, stats_.limit_bytes);
    left = std::min(left, stats_.limit_bytes - reserved);
  }
  return largest_free(stream) + left;
}

// "conv2d_forward(…) 3.2 GiB in 60 blocks, unnamed 1 GiB in 4 blocks"
std::string BlockPool::biggest_calls() const {
  struct Held {
    size_t bytes = 0, blocks = 0;
  };
  std::map<std::string_view, Held> by_call;
  for (const Segment& segment : segments_) {
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      if (block->state != BlockState::kLive) continue;
      Held& held = by_call[block->tag != nullptr ? block->tag : "unnamed"];
      held.bytes += block->bytes;
      ++held.blocks;
    }
  }
  std::vector<std::pair<std::string_view, Held>> calls(by_call.begin(), by_call.end());
  std::stable_sort(calls.begin(), calls.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  if (calls.size() > kCalls) calls.resize(kCalls);
  std::string text;
  for (const auto& [call, held] : calls) {
    append_text(text, text.empty() ? "" : ", ");
    append_text(text, concat(call, " ", readable_bytes(held.bytes), " in ", held.blocks,
                             held.blocks == 1 ? " block" : " blocks"));
  }
  return text.empty() ? "none" : text;
}

void BlockPool::throw_out_of_memory(const Request& request) {
  ++stats_.ooms;
  history_.add(PoolEvent::Kind::kOutOfMemory, nullptr, request.bytes, request.stream, request.tag);
  const size_t live = stats_.allocated_bytes.current, active = stats_.active_bytes.current;
  const bool capturing = capture_underway(request.stream);
  std::string device;
  if (!capturing && memory_.is_alive()) {
    const MemoryInfo info = memory_.mem_info();
    device = concat(", device ", readable_bytes(info.free_bytes), " free of ",
                    readable_bytes(info.total_bytes));
  }
  LATHE_FAIL(OutOfMemoryError, options_.name, ": out of memory: requested ",
             readable_bytes(request.bytes),
             request.tag != nullptr ? concat(" for ", request.tag) : "", " (live ",
             readable_bytes(live), ", waiting for streams ", readable_bytes(active - live),
             ", cached ", readable_bytes(stats_.cached_bytes()), ", largest free ",
             readable_bytes(largest_free(request.stream)), ", limit ",
             stats_.limit_bytes == 0 ? "none" : readable_bytes(stats_.limit_bytes), device,
             "; biggest calls: ", biggest_calls(), ")",
             capturing ? "; nothing could be released, because a graph is being captured" : "");
}

}  // namespace lathe
