// The caching allocator. Memory that is given back is kept for the next request, because the device
// is slow to give memory and waits for all work when it takes some back.
//
//   - The pool takes segments from the device and cuts blocks from them. Sizes are multiples of 512
//     bytes. There are two classes of sizes, and they never share a segment: requests up to 1 MiB
//     share segments of 2 MiB, requests below 10 MiB share segments of 20 MiB; a larger one, if no
//     free block fits, has its own. So a small block that lives long does not keep a large segment
//     from being given back.
//   - Best fit: a request gets the smallest free block that is large enough, and among equal ones
//     that with the lowest address. So a program that repeats its requests gets the same addresses.
//   - A block is split if the rest is worth keeping. A block that is given back is merged with its
//     free neighbours.
//   - Stream order: a segment serves one stream. What is given back may be used again at once,
//     although kernels that read it may still be queued: the next user's kernels are queued behind
//     them. If record_stream() named another stream, the block first waits for an event on that.
//     The head of device.h has an example. (The ops here compute at once, all on stream 0.)
#pragma once

#include <algorithm>
#include <compare>
#include <list>
#include <mutex>
#include <optional>

#include "device.h"

namespace tiny {

/// Thread-safe.
class Pool {
 public:
  // In bytes. A segment for a request of kOwnSegment or more is taken for that one request, in
  // multiples of kSegmentStep. If more than 1 MiB is left over, cut() makes a free block of it.
  static constexpr size_t kMiB = size_t{1} << 20;
  static constexpr size_t kAlignment = 512, kSmallRequest = kMiB, kSmallSegment = 2 * kMiB;
  static constexpr size_t kLargeSegment = 20 * kMiB, kOwnSegment = 10 * kMiB;
  static constexpr size_t kSegmentStep = 2 * kMiB;

  /// `device` must outlive the pool.
  explicit Pool(Device& device) : device_(device) {}
  ~Pool() { empty_cache(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// At least `bytes` bytes for work on `stream`; null for 0.
  /// throws: OutOfMemoryError.
  void* allocate(size_t bytes, Stream stream = 0) {
    if (bytes == 0) return nullptr;
    const std::lock_guard lock(mutex_);
    const size_t size = round_up(bytes, kAlignment);
    const Request request{size <= kSmallRequest, stream, size};
    std::optional<Place> block = take_free(request);
    if (!block && free_those_done()) block = take_free(request);
    if (!block) block = grow(request, segment_bytes(request));
    if (!block) block = recover(request);
    check<OutOfMemoryError>(block.has_value(), "Pool::allocate: no memory for ", bytes,
                            " bytes; in use are ", stats_.used_bytes, " of ", stats_.reserved_bytes,
                            " bytes taken from the device");
    live_[(*block)->address] = *block;
    stats_.used_bytes += (*block)->bytes;
    return (*block)->address;
  }

  /// Gives a block back, while its streams may still be working on it. Null is ignored.
  /// throws: ValueError if the address is not that of a live block.
  void deallocate(const void* address) {
    if (address == nullptr) return;
    const std::lock_guard lock(mutex_);
    const Place block = live_block("Pool::deallocate", address);
    live_.erase(address);
    stats_.used_bytes -= block->bytes;
    if (block->other_streams.empty()) return make_free(block);
    std::vector<Event> events;
    for (const Stream stream : block->other_streams) events.push_back(device_.record(stream));
    waiting_.push_back({block, std::move(events)});
  }

  /// Says that work on `stream` uses the block, besides that of the stream it was allocated for.
  /// throws: ValueError if the address is not that of a live block.
  void record_stream(const void* address, Stream stream) {
    const std::lock_guard lock(mutex_);
    const Place block = live_block("Pool::record_stream", address);
    if (stream != block->segment->stream) block->other_streams.push_back(stream);
  }

  /// Waits for the device and gives back the segments of which no block is in use.
  void empty_cache() {
    const std::lock_guard lock(mutex_);
    give_back_segments();
  }

  struct Stats {
    size_t used_bytes = 0;      // in live blocks
    size_t reserved_bytes = 0;  // in segments
    size_t device_calls = 0;    // the slow ones
  };
  Stats stats() const {
    const std::lock_guard lock(mutex_);
    Stats stats = stats_;
    stats.device_calls = device_.calls();
    return stats;
  }

 private:
  struct Segment;
  struct Block {
    std::byte* address;
    size_t bytes;
    Segment* segment;  // that it lies in
    bool is_free = false;
    std::vector<Stream> other_streams = {};  // of record_stream()
  };
  using Place = std::list<Block>::iterator;  // a block, and through ++ and -- its neighbours
  struct Segment {
    bool small;
    Stream stream;
    std::list<Block> blocks;  // by address, without gaps
  };
  /// Also the key of a free block: their order is the order of best fit. A request's null address
  /// makes lower_bound() find the first block of that size or more.
  struct Request {
    bool small;
    Stream stream;
    size_t bytes;
    std::byte* address = nullptr;
    auto operator<=>(const Request&) const = default;
  };
  struct Waiting {
    Place block;
    std::vector<Event> events;
  };

  static size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }
  static Request key_of(const Block& block) {
    return {block.segment->small, block.segment->stream, block.bytes, block.address};
  }

  Place live_block(const char* caller, const void* address) const {
    const auto found = live_.find(address);
    check<ValueError>(found != live_.end(), caller, ": not the address of a live block");
    return found->second;
  }

  std::optional<Place> take_free(const Request& request) {
    const auto best = free_.lower_bound(request);
    if (best == free_.end() || best->first.small != request.small ||
        best->first.stream != request.stream)
      return std::nullopt;
    const Place block = best->second;
    free_.erase(best);
    return cut(block, request);
  }

  /// The block, cut to what the request needs. In a small segment any rest becomes a free block. In
  /// a large one a rest of up to 1 MiB stays in the block: requests of that size never come to a
  /// large segment, so nobody could use it.
  Place cut(Place block, const Request& request) {
    block->is_free = false;
    const size_t rest = block->bytes - request.bytes;
    if (request.small ? rest > 0 : rest > kSmallRequest) {
      Block behind{block->address + request.bytes, rest, block->segment};
      block->bytes = request.bytes;
      insert_free(block->segment->blocks.insert(std::next(block), std::move(behind)));
    }
    return block;
  }

  void insert_free(Place block) {
    block->is_free = true;
    free_[key_of(*block)] = block;
  }

  /// Merges the block with its free neighbours, and keeps it for the next request.
  void make_free(Place block) {
    std::list<Block>& blocks = block->segment->blocks;
    block->other_streams.clear();
    if (const Place next = std::next(block); next != blocks.end() && next->is_free) {
      free_.erase(key_of(*next));
      block->bytes += next->bytes;
      blocks.erase(next);
    }
    if (block != blocks.begin() && std::prev(block)->is_free) {
      const Place previous = std::prev(block);
      free_.erase(key_of(*previous));
      previous->bytes += block->bytes;
      blocks.erase(block);
      block = previous;
    }
    insert_free(block);
  }

  /// Frees the blocks whose events have passed. Does not wait for the rest. True if there were any.
  bool free_those_done() {
    return std::erase_if(waiting_, [this](const Waiting& waiting) {
             for (const Event& event : waiting.events)
               if (!device_.has_passed(event)) return false;
             make_free(waiting.block);
             return true;
           }) > 0;
  }

  static size_t segment_bytes(const Request& request) {
    if (request.small) return kSmallSegment;
    return request.bytes < kOwnSegment ? kLargeSegment : round_up(request.bytes, kSegmentStep);
  }

  /// A block from a new segment; nothing if the device has no memory left.
  std::optional<Place> grow(const Request& request, size_t bytes) {
    std::byte* base = device_.take(bytes);
    if (base == nullptr) return std::nullopt;
    stats_.reserved_bytes += bytes;
    Segment& segment = segments_[base];
    segment.small = request.small;
    segment.stream = request.stream;
    segment.blocks.push_back({base, bytes, &segment});
    return cut(segment.blocks.begin(), request);
  }

  /// The last steps before an error: waits for the device, which frees every block that waits; then
  /// gives all free segments back, and asks for no more than is needed: that is less than before
  /// for requests between 1 and 10 MiB, which else take 20.
  std::optional<Place> recover(const Request& request) {
    device_.synchronize();
    free_those_done();
    if (const auto block = take_free(request)) return block;
    give_back_segments();
    return grow(request, round_up(request.bytes, kSegmentStep));
  }

  void give_back_segments() {
    device_.synchronize();
    free_those_done();
    std::erase_if(segments_, [this](const auto& entry) {
      const std::list<Block>& blocks = entry.second.blocks;
      if (blocks.size() > 1 || !blocks.front().is_free) return false;
      const Block& whole = blocks.front();  // a free segment is one block: neighbours are merged
      free_.erase(key_of(whole));
      stats_.reserved_bytes -= whole.bytes;
      device_.give_back(whole.address);
      return true;
    });
  }

  Device& device_;
  mutable std::mutex mutex_;  // guards what follows, and the device
  std::map<std::byte*, Segment> segments_;
  std::map<const void*, Place> live_;
  std::map<Request, Place> free_;
  std::vector<Waiting> waiting_;  // given back, and in use by other streams
  Stats stats_;
};

}  // namespace tiny

// What the real one adds, and why
// - core/memory/block_pool.h has the same policy and gives the same addresses.
// - core/memory/block_pool_recovery.cpp gives back just as many segments as are needed, and its
//   error says who holds the rest.
// - core/memory/host_allocator.h: a CPU has no streams, so lists by size are enough.
