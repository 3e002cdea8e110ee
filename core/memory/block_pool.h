// The policy of the caching allocator for device and pinned memory: memory that is slow to take
// from a device, and that queued work may still use when it is given back. Plain C++ over
// RawMemory.
//
// - Sizes are rounded up to 512 bytes (pinned memory: to powers of two). 0 bytes are no block.
// - Memory is taken in segments. Requests up to 1 MiB share segments of 2 MiB, requests below
//   10 MiB share segments of 20 MiB. A larger request gets its own segment, in steps of 2 MiB.
//   Small and large requests never share a segment, so that small long-lived blocks do not keep
//   large ones from being freed.
// - Best fit: a request gets the smallest free block of its stream that is large enough, and among
//   equal ones that with the lowest address. So the same calls give the same addresses.
// - A block is split if the rest is worth keeping: 512 bytes for small requests, more than 1 MiB
//   for large ones. A block that is given back joins its free neighbours in the segment.
// - Stream rule: a segment serves one stream. A block that was given back may be reused at once,
//   because work on one stream runs in order. If record_stream() named other streams, the block
//   first waits for an event on each; no thread blocks for that (block_pool_events.h).
// - If nothing fits, the pool tries in turn: blocks whose events are done by now; a new segment;
//   and if the device refuses, the steps of block_pool_recovery.cpp: callbacks, release of just
//   enough cached segments, wait for the device and release of them all, OutOfMemoryError.
// - Private pools (graphs): between begin_pool() and end_pool() the requests of chosen streams come
//   from separate segments. These stay until the pool is released and its last block is free.
// - While a capture is underway the pool waits for nothing, queries nothing and gives nothing back
//   to the device. Blocks that other streams used are parked until the capture is over. The pool
//   asks the device each time whether a capture is underway: a remembered answer would be wrong
//   after a capture that failed.
// - Expandable segments (optional, block_pool_expandable.cpp): one range of addresses per stream,
//   into which memory is mapped as it is needed, so that no cached segment has an unfit size.
// - Without caching (LATHE_NO_CACHE) every block is a segment of exactly its size and is given back
//   at once, so that memory checkers see every allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "lathe/core/fault.h"
#include "lathe/core/memory/block_pool_blocks.h"
#include "lathe/core/memory/block_pool_events.h"
#include "lathe/core/memory/block_pool_stats.h"
#include "lathe/core/memory/raw_memory.h"

namespace lathe {

/// The constants of the policy. Sizes are in bytes; tests make them small.
struct BlockPoolOptions {
  enum class Rounding : uint8_t { kAlignment, kPowerOfTwo };

  std::string name = "device memory";  // begins messages: "cuda:0"
  Rounding rounding = Rounding::kAlignment;
  size_t alignment = 512;           // of addresses and sizes; a power of two
  size_t small_request = 1 << 20;   // requests up to this size are small
  size_t small_segment = 2 << 20;   // segments that small requests share
  size_t large_segment = 20 << 20;  // segments that large requests share
  size_t own_segment = 10 << 20;    // from this size on a request gets a segment of its own,
  size_t segment_step = 2 << 20;    // rounded up to a multiple of this
  size_t max_split = SIZE_MAX;      // blocks this large stay whole and serve requests this large
  size_t history = 0;               // number of events to keep
  bool cache = true;
  bool expandable = false;  // where RawMemory has virtual memory
};

/// Thread-safe. The pool calls the device under its lock, so work on a stream must not wait for a
/// thread that allocates.
class LATHE_API BlockPool {
 public:
  using PoolId = uint64_t;  // of private pools; 0 is the default pool
  using StreamFilter = std::function<bool(StreamHandle)>;
  using OutOfMemoryCallback = std::function<bool(size_t bytes)>;

  /// `memory` must outlive the pool.
  /// throws: ValueError for options that contradict each other.
  explicit BlockPool(RawMemory& memory, BlockPoolOptions options = {});

  /// Waits for the device and returns every free segment, also private ones. A segment with live
  /// blocks is not returned, and an error is logged. Does nothing if the driver is shut down or a
  /// capture is underway.
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// At least `bytes` bytes for work on `stream`; null for 0. `tag`, a string that outlives the
  /// pool, names the call that needs it.
  /// throws: OutOfMemoryError; live blocks do not change, but cached segments may have been
  /// released. StateError if a segment is needed after the driver was shut down.
  void* allocate(size_t bytes, StreamHandle stream, const char* tag = nullptr);

  /// Gives a block back. Its own stream, and those named by record_stream(), may still be working
  /// on it. Null is ignored. An address of no live block is ignored, and logged the first time.
  void deallocate(void* block) noexcept;

  /// True if `address` is that of a live block.
  bool holds(const void* address) const;

  /// Says that work on `stream` uses `block`: work queued so far, or until the block is given back.
  /// Call it again if the stream joins a capture meanwhile. Has no effect for the stream on which
  /// the block was allocated.
  /// throws: ValueError if `block` is not a live block of this pool.
  void record_stream(void* block, StreamHandle stream);

  /// Waits for the device and returns all segments without a block in use, except those of private
  /// pools in use.
  /// throws: StateError while a capture is underway.
  void empty_cache();

  /// True if a capture is underway: of `stream`, or of the origin of a private pool being served.
  bool is_capturing(StreamHandle stream) const;

  /// The most bytes to take from the device (0: no limit). Cached segments are released before the
  /// limit makes an allocation fail. A limit below what is reserved now affects only further
  /// segments.
  void set_limit(size_t bytes);
  /// Sets the limit as a part of the device's memory.
  /// throws: ValueError outside (0, 1]; StateError while a capture is underway.
  void set_limit_fraction(double fraction);

  /// `callback` runs when the device refuses memory, before cached segments are released. It is the
  /// place to drop caches. It runs without the pool's lock, and returns whether it freed anything.
  /// allocate() passes on what it throws. It does not run during captures, nor for an allocation
  /// inside a callback.
  uint64_t add_oom_callback(OutOfMemoryCallback callback);
  void remove_oom_callback(uint64_t id);

  /// From now on private pool `id` serves the requests on streams for which `filter` is true. The
  /// first call with an id makes the pool; each call adds a user of the pool. `filter` is called
  /// under the pool's lock.
  ///   capture_origin  the stream that a graph is, or will be, captured from: the pool asks it
  ///                   whether the capture is underway. Null for a pool without a capture.
  /// throws: ValueError for id 0 or an empty filter; StateError if the pool is already being
  /// served.
  void begin_pool(PoolId id, StreamFilter filter, StreamHandle capture_origin = nullptr);

  /// Ends the routing, whether or not the capture succeeded.
  /// throws: StateError if the pool is not being served.
  void end_pool(PoolId id);

  /// Removes one user, whose graph was destroyed. After the last user, segments may return to the
  /// device when their blocks are free.
  /// throws: ValueError if there is no such pool; StateError if it has no users left, or if this is
  /// its last user and the pool is still being served.
  void release_pool(PoolId id);

  /// Bytes that a request on `stream` could get now: the largest free block, and what the device
  /// has left within the limit. Only a hint, because other threads allocate too.
  size_t available_bytes(StreamHandle stream);

  BlockPoolStats stats() const;
  void reset_peak();

  /// From now on keeps the latest `capacity` events; 0 turns the history off.
  void set_history(size_t capacity);

  /// When armed, makes the n-th allocate() from then on fail as if the device had no memory left.
  FaultPoint& fault() noexcept { return fault_; }

  /// Segments with their blocks, statistics and history as JSON; block_pool_snapshot.cpp shows the
  /// format.
  std::string snapshot() const;

  const BlockPoolOptions& options() const { return options_; }

  /// Held across fork(), so that the child's pool is in order.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  friend class BlockPoolInspector;  // tests: checks the invariants
  using Lock = std::unique_lock<std::mutex>;

  struct Request {
    size_t bytes;  // as asked for
    size_t size;   // rounded up
    StreamHandle stream;
    const char* tag;
    bool small;
  };
  struct Route {
    PoolId id;
    StreamFilter filter;
    StreamHandle capture_origin;
  };
  struct ReleaseScope {
    bool idle = false;         // the device was just synchronised
    bool private_too = false;  // also private pools in use
  };

  // block_pool.cpp: requests, segments, free blocks
  size_t rounded(size_t bytes) const;
  size_t segment_bytes(const Request& request) const;
  size_t smallest_segment(const Request& request) const;
  Block* take_free(const Request& request);
  Block* allocate_slow(Lock& lock, const Request& request);
  Block* cut(Block* block, const Request& request) noexcept;
  Block* grow(const Request& request, size_t segment_bytes);
  Block* add_segment(std::list<Segment>& fresh, Arena& arena, const Request& request, char* base,
                     size_t bytes) noexcept;
  void drop_segment(Block* whole) noexcept;
  bool within_limit(size_t bytes) const noexcept;
  void insert_free(Block* block) noexcept;
  void remove_free(Block* block) noexcept;
  void make_free(Block* block) noexcept;
  void make_free_all(Block* waiting) noexcept;
  Block* merge_free_neighbours(Block* block) noexcept;
  bool collect(StreamHandle stream);
  bool synchronize_and_collect() noexcept;
  void report_misuse(Lock& lock, bool foreign, const void* address) noexcept;

  // block_pool_arenas.cpp: private pools, captures
  std::vector<Route>::iterator find_route(PoolId id) noexcept;
  Arena& arena_for(StreamHandle stream);
  void drop_unused_arenas() noexcept;
  bool capture_underway(StreamHandle stream) const noexcept;
  bool capture_touches(const Block* block) const noexcept;

  // block_pool_recovery.cpp: what happens if the device refuses memory
  Block* recover(Lock& lock, const Request& request);
  bool run_callbacks(Lock& lock, const Request& request);
  bool release_enough(size_t bytes);
  void release_segments(ReleaseScope scope);
  void release_segment(Block* whole) noexcept;
  void release_uncached(Block* block) noexcept;
  void release_at_end() noexcept;
  size_t largest_free(StreamHandle stream);
  std::string biggest_calls() const;
  [[noreturn]] void throw_out_of_memory(const Request& request);

  // block_pool_expandable.cpp: segments that grow in place
  bool grows_in_place() const noexcept;
  Block* grow_in_place(const Request& request);
  Block* find_gap(const Request& request);
  Block* reserve_range(const Request& request);
  void drop_range(Block* gap) noexcept;
  bool map_granules(char* address, size_t bytes) noexcept;
  void unmap_granules(Block* block);

  RawMemory& memory_;
  const BlockPoolOptions options_;
  FaultPoint fault_;

  mutable std::mutex mutex_;  // guards what follows
  BlockTable blocks_;
  std::list<Segment> segments_;  // oldest first
  std::map<PoolId, Arena> arenas_;
  Arena* default_arena_;
  std::vector<Route> routes_;  // pools being served; the first that accepts a stream gets it
  StreamUses uses_;
  std::map<uint64_t, OutOfMemoryCallback> callbacks_;
  uint64_t next_callback_ = 1;
  size_t range_bytes_ = 0;  // of an expandable segment
  BlockPoolStats stats_;
  PoolHistory history_;
  bool misuse_reported_ = false;
};

/// { PrivatePoolScope pool(pool, id, filter, stream); capture… }: ends the routing on every path.
class LATHE_API PrivatePoolScope {
 public:
  PrivatePoolScope(BlockPool& pool, BlockPool::PoolId id, BlockPool::StreamFilter filter,
                   StreamHandle capture_origin = nullptr);
  ~PrivatePoolScope();
  PrivatePoolScope(const PrivatePoolScope&) = delete;
  PrivatePoolScope& operator=(const PrivatePoolScope&) = delete;

 private:
  BlockPool& pool_;
  const BlockPool::PoolId id_;
};

}  // namespace lathe
