// What the tests of core/memory/block_pool share: three streams, shrunken constants, and a pool on a fake
// device that must end without a violation, a byte or an event.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "block_pool_inspector.h"
#include "fake_memory.h"
#include "lathe/core/memory/block_pool.h"

namespace lathe {

inline StreamHandle stream_handle(uintptr_t number) {
  return reinterpret_cast<StreamHandle>(number * 16);  // NOLINT
}
inline const StreamHandle kA = stream_handle(0);  // the default stream
inline const StreamHandle kB = stream_handle(1);
inline const StreamHandle kC = stream_handle(2);

inline constexpr size_t kKiB = 1024;

/// Requests up to 4 KiB share 16 KiB, those below 64 KiB share 128 KiB, steps of 16 KiB.
inline BlockPoolOptions small_options() {
  return {.name = "fake",
          .small_request = 4 * kKiB,
          .small_segment = 16 * kKiB,
          .large_segment = 128 * kKiB,
          .own_segment = 64 * kKiB,
          .segment_step = 16 * kKiB};
}

inline BlockPoolOptions expandable_options() {
  BlockPoolOptions options = small_options();
  options.expandable = true;
  return options;
}

/// A pool on a device of its own.
struct PoolFixture {
  explicit PoolFixture(BlockPoolOptions options = small_options(),
                       size_t capacity_bytes = 1024 * kKiB)
      : memory(capacity_bytes) {
    memory.has_virtual_memory = options.expandable;
    pool.emplace(memory, options);
  }

  ~PoolFixture() {
    if (memory.alive) {
      pool.reset();
      CHECK(memory.used_bytes() == 0);
      CHECK(memory.reserved_address_bytes() == 0);
      CHECK(memory.live_events() == 0);
    }
    CHECK(memory.violation() == "");
  }

  /// A block that its stream has work queued on.
  void* take(size_t bytes, StreamHandle stream, const char* tag = nullptr) {
    void* block = pool->allocate(bytes, stream, tag);
    memory.check_unused_by_others(stream, block, bytes);
    memory.work(stream, block, bytes);
    check();
    return block;
  }

  void give(void* block) {
    pool->deallocate(block);
    check();
  }

  /// Queues work on another stream, and says so.
  void use(void* block, size_t bytes, StreamHandle stream) {
    memory.work(stream, block, bytes);
    pool->record_stream(block, stream);
  }

  void check() { CHECK(BlockPoolInspector::check(*pool) == ""); }
  size_t calls(const char* function) {
    const auto calls = memory.calls();
    const auto found = calls.find(function);
    return found == calls.end() ? 0 : found->second;
  }

  FakeMemory memory;
  std::optional<BlockPool> pool;
};

}  // namespace lathe
