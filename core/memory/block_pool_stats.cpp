// Reading statistics, setting limits and keeping the history of core/memory/block_pool.
#include "lathe/core/memory/block_pool_stats.h"

#include <algorithm>
#include <chrono>

#include "lathe/core/error.h"
#include "lathe/core/memory/block_pool.h"

namespace lathe {

BlockPoolStats BlockPool::stats() const {
  const Lock lock(mutex_);
  return stats_;
}

void BlockPool::reset_peak() {
  const Lock lock(mutex_);
  for (PoolGauge* gauge :
       {&stats_.allocations, &stats_.allocated_bytes, &stats_.requested_bytes, &stats_.active_bytes,
        &stats_.inactive_split_bytes, &stats_.reserved_bytes, &stats_.segments})
    gauge->peak = gauge->current;
}

void BlockPool::set_limit(size_t bytes) {
  const Lock lock(mutex_);
  stats_.limit_bytes = bytes;
}

void BlockPool::set_limit_fraction(double fraction) {
  LATHE_CHECK(ValueError, fraction > 0 && fraction <= 1, options_.name,
              ": the limit must be a fraction in (0, 1] of the memory, got ", fraction);
  const Lock lock(mutex_);
  LATHE_CHECK(StateError, !capture_underway(nullptr), options_.name,
              ": set_limit_fraction: the device cannot be asked while a graph is being captured");
  const auto total = static_cast<double>(memory_.mem_info().total_bytes);
  stats_.limit_bytes = std::max<size_t>(1, static_cast<size_t>(fraction * total));
}

void BlockPool::set_history(size_t capacity) {
  const Lock lock(mutex_);
  history_.reset(capacity);
}

void PoolHistory::reset(size_t capacity) {
  ring_ = std::vector<PoolEvent>(capacity);
  count_ = 0;
}

void PoolHistory::write(PoolEvent::Kind kind, const void* address, size_t bytes,
                        StreamHandle stream, const char* tag) noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  ring_[count_++ % ring_.size()] = {kind,   address, bytes,
                                    stream, tag,     static_cast<uint64_t>(time_ns)};
}

}  // namespace lathe
