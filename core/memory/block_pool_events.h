// Which streams besides its own have used a block, and when a block that was given back may be used
// again: the part of core/memory/block_pool that implements the stream rule.
//
//   live ──┬─ given back, used by no other stream ───────────────────────────────────────→ free
//          │
//          ├─ given back: wait(), one event per use ──→ waiting ─┬─ its events are done ──→ free
//          │                                               ↑     │  (collect_done)
//          │                 unpark(): the capture is over │     └─ the device is idle ───→ free
//          │                                               │        (collect_all)
//          └─ given back during a capture: park() ─────→ parked ─── its streams joined ───→ free
//                                                                   within the capture
//                                                                   (collect_joined)
#pragma once

#include <cstddef>
#include <map>

#include "lathe/core/memory/block_pool_blocks.h"

namespace lathe {

struct StreamQueue;

/// The use of one block by one stream. `event` is set while the block waits for it.
struct StreamUse {
  StreamHandle stream = nullptr;
  Block* block = nullptr;
  StreamQueue* queue = nullptr;
  EventHandle event = nullptr;
  uint64_t capture = 0;  // the capture that the whole use is part of; 0: work that runs now
  CaptureMark mark = 0;  // of a parked block: where the stream was when it was given back, or 0
  StreamUse *next_of_block = nullptr, *next_in_queue = nullptr;
};

/// Events on one stream complete in order, so only the oldest is ever queried.
struct StreamQueue {
  StreamUse *oldest = nullptr, *newest = nullptr;
  size_t uses = 0;  // on this stream, queued or not
};

/// Not thread-safe: the pool's lock guards it. Before it is destroyed, forget() must have been
/// called for every block. Functions that return blocks return a list linked by `next_waiting`, of
/// blocks that no longer wait and have no uses.
class StreamUses {
 public:
  explicit StreamUses(RawMemory& memory) : memory_(memory) {}
  StreamUses(const StreamUses&) = delete;
  StreamUses& operator=(const StreamUses&) = delete;

  /// Notes that `stream` uses the live `block`.
  /// throws: std::bad_alloc; then nothing was noted.
  void add(Block* block, StreamHandle stream);

  /// For a block with uses that was given back: records one event per use. If a stream takes no
  /// event (it was destroyed), the block waits until the device is idle.
  void wait(Block* block) noexcept;

  /// The same while a capture is underway: unpark() records the events when it is over.
  void park(Block* block) noexcept;
  void unpark() noexcept;

  /// Forgets the uses of a block. Does not release events that it waits for.
  void forget(Block* block) noexcept;

  Block* collect_done() noexcept;
  Block* collect_all() noexcept;  // only when the device has just been synchronised
  Block* collect_joined(const Arena* arena, StreamHandle stream) noexcept;

  /// True if one of the streams that use the block is being captured: an event on it would become
  /// part of the graph.
  bool is_captured(const Block* block) const noexcept;

  bool any_waiting() const { return oldest_ != nullptr; }
  bool any_parked() const { return parked_ > 0; }

 private:
  friend class BlockPoolInspector;  // tests
  uint64_t capture_of(StreamHandle stream) const noexcept;
  void record_events(Block* block) noexcept;
  void finish(StreamUse* use, Block*& done) noexcept;
  void leave(Block* block, Block*& done) noexcept;
  void drop_idle_queues() noexcept;

  RawMemory& memory_;
  std::map<StreamHandle, StreamQueue> queues_;   // of streams with uses
  Block *oldest_ = nullptr, *newest_ = nullptr;  // waiting blocks, parked ones included
  size_t parked_ = 0;
};

}  // namespace lathe
