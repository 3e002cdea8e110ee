// What core/memory/block_pool counts, and its history of events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lathe/core/memory/raw_memory.h"

namespace lathe {

/// A number that rises and falls.
struct PoolGauge {
  size_t current = 0;
  size_t peak = 0;     // its maximum since reset_peak()
  uint64_t total = 0;  // the sum of all that was ever added

  void add(size_t amount) noexcept {
    current += amount;
    total += amount;
    if (current > peak) peak = current;
  }
  void remove(size_t amount) noexcept { current -= amount; }
};

struct BlockPoolStats {
  PoolGauge allocations;           // live blocks
  PoolGauge allocated_bytes;       // of live blocks, rounding included
  PoolGauge requested_bytes;       // of live blocks, as they were asked for
  PoolGauge active_bytes;          // of live blocks and of those that wait for a stream
  PoolGauge inactive_split_bytes;  // of free blocks in segments that are partly in use
  PoolGauge reserved_bytes;        // taken from the device
  PoolGauge segments;              // taken from the device
  uint64_t retries = 0;            // allocations that the device refused at first
  uint64_t ooms = 0;               // allocations that failed
  size_t limit_bytes = 0;          // on reserved_bytes; 0: none

  size_t cached_bytes() const { return reserved_bytes.current - active_bytes.current; }
};

/// One step of a pool's history.
struct PoolEvent {
  enum class Kind : uint8_t { kAllocate, kDeallocate, kReady, kReserve, kRelease, kOutOfMemory };

  Kind kind = Kind::kAllocate;  // kReady: a block that waited for a stream became free
  const void* address = nullptr;
  size_t bytes = 0;
  StreamHandle stream = nullptr;
  const char* tag = nullptr;
  uint64_t time_ns = 0;  // of a monotonic clock
};

/// The latest `capacity` events. With capacity 0 it keeps nothing and reads no clock.
class PoolHistory {
 public:
  /// Forgets everything and keeps `capacity` events from now on.
  /// throws: std::bad_alloc.
  void reset(size_t capacity);

  void add(PoolEvent::Kind kind, const void* address, size_t bytes, StreamHandle stream,
           const char* tag) noexcept {
    if (!ring_.empty()) [[unlikely]]
      write(kind, address, bytes, stream, tag);
  }

  /// Calls visit(event) for each event kept, oldest first.
  template <class Visit>
  void each(Visit&& visit) const {
    const uint64_t kept = count_ < ring_.size() ? count_ : ring_.size();
    for (uint64_t i = count_ - kept; i < count_; ++i) visit(ring_[i % ring_.size()]);
  }

  uint64_t count() const { return count_; }  // ever added

 private:
  void write(PoolEvent::Kind kind, const void* address, size_t bytes, StreamHandle stream,
             const char* tag) noexcept;

  std::vector<PoolEvent> ring_;
  uint64_t count_ = 0;
};

}  // namespace lathe
