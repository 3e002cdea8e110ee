// The ranges of one thread while a recording runs. Only that thread writes; the recording reads
// what is finished, also while the thread goes on writing.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "lathe/core/device.h"
#include "lathe/core/hooks/device_marks.h"
#include "lathe/core/hooks/record.h"

namespace lathe::profile {

/// A range that is not finished. Until then record.memory holds what its thread had taken before.
struct OpenRange {
  Record record = {};
  Device device = {};            // the GPU on which it is measured, if any
  void* device_begin = nullptr;  // its mark
  bool in_tool = false;          // NVIDIA's tools show it, too
  bool lends_stack = false;      // a gradient, or a part of one, that has the stack of its op
};

class ThreadLog {
 public:
  /// For the calling thread and recording `session`; keeps `limit` ranges at most.
  ThreadLog(uint64_t session, size_t limit);
  ~ThreadLog();
  ThreadLog(const ThreadLog&) = delete;
  ThreadLog& operator=(const ThreadLog&) = delete;

  uint64_t session() const { return session_; }

  // --- for the thread itself ---------------------------------------------------------------------
  std::vector<OpenRange>& open() { return open_; }
  MemoryChange& taken() { return taken_; }
  SpareEvents& spare_events() { return spare_events_; }
  /// The text with a zero at its end; it lives as long as this log. Equal texts share it.
  const char* keep(std::string_view text);
  /// Says that the range of the op that recorded `node` has a stack, which its gradient will share:
  /// its own, or that of the gradient around it.
  void note_call(uint64_t node) { called_.insert(node); }
  bool has_call(uint64_t node) const { return called_.contains(node); }
  /// Adds a finished range.   → false if the limit or the memory did not allow it: it is counted
  bool append(OpenRange&& range, void* device_end) noexcept;
  void drop() noexcept { dropped_.fetch_add(1, std::memory_order_relaxed); }

  // --- for the recording -------------------------------------------------------------------------
  /// Moves out the ranges that are finished. Waits for the GPUs on which they were measured.
  ThreadRecords take();
  uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    OpenRange range;
    void* device_end = nullptr;
  };
  struct Chunk {
    std::array<Entry, 128> entries;
    std::atomic<size_t> used{0};
    std::atomic<Chunk*> next{nullptr};
  };

  /// Where the next entry goes. → null beyond the limit
  Entry* next_entry();

  const uint64_t session_;
  const size_t limit_;
  size_t count_ = 0;
  ThreadRecords about_;
  std::vector<OpenRange> open_;
  MemoryChange taken_;
  SpareEvents spare_events_;
  std::unordered_set<std::string> texts_;  // its elements keep their place
  std::unordered_set<uint64_t> called_;
  Chunk* first_;
  Chunk* last_;
  std::atomic<uint64_t> dropped_{0};
};

}  // namespace lathe::profile
