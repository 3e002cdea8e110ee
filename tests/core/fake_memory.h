// A device for the tests of core/memory/block_pool: memory at made-up addresses that nothing may touch,
// streams whose work completes when the test says so, events, captures, and a FaultPoint that makes
// the n-th call fail. Whatever a real device would answer with an error or with wrong numbers is
// noted in violations().
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "lathe/core/fault.h"
#include "lathe/core/memory/raw_memory.h"

namespace lathe {

/// Thread-safe.
class FakeMemory final : public RawMemory, private VirtualMemory {
 public:
  explicit FakeMemory(size_t capacity_bytes) : capacity_(capacity_bytes) {}

  // RawMemory
  bool is_alive() const noexcept override { return alive; }
  void* allocate(size_t bytes) noexcept override;
  void deallocate(void* block) noexcept override;
  EventHandle record(StreamHandle stream) noexcept override;
  void release(EventHandle event) noexcept override;
  bool query(EventHandle event) noexcept override;
  bool synchronize() noexcept override;
  MemoryInfo mem_info() noexcept override;
  uint64_t capture_id(StreamHandle stream) noexcept override;
  CaptureMark capture_mark(StreamHandle stream) noexcept override;
  bool is_behind(StreamHandle stream, CaptureMark mark) noexcept override;
  VirtualMemory* virtual_memory() noexcept override { return has_virtual_memory ? this : nullptr; }

  // What a program does with streams.
  void work(StreamHandle stream, const void* address, size_t bytes);  // queues a kernel
  void advance(StreamHandle stream, size_t count = SIZE_MAX);         // completes the oldest
  void destroy_stream(StreamHandle stream);
  uint64_t begin_capture(StreamHandle stream);
  void wait_stream(StreamHandle stream, StreamHandle other);  // within a capture: fork or join
  void end_capture(StreamHandle stream);

  /// Notes a violation if a stream other than `stream` has unfinished work in the range, or in the
  /// graph being captured work that `stream` is not behind.
  void check_unused_by_others(StreamHandle stream, const void* address, size_t bytes);
  void note(const std::string& violation);

  /// Empty when all went well; else the first violation.
  std::string violation() const;
  size_t used_bytes() const;
  size_t reserved_address_bytes() const;
  size_t live_events() const;
  std::map<std::string, size_t> calls() const;  // how often each function was called

  /// Fails allocate, record, query, synchronize, reserve, create and map.
  FaultPoint& fault() { return fault_; }

  bool alive = true;
  bool has_virtual_memory = false;
  size_t granule_bytes = 4096;

 private:
  struct Kernel {
    uint64_t number;
    uintptr_t begin, end;
  };
  struct Stream {
    uint64_t submitted = 0, completed = 0;
    std::deque<Kernel> pending;
    bool destroyed = false;
    uint64_t capture = 0;
    uint64_t node = 0;                      // kernels of this stream in the graph
    std::map<StreamHandle, uint64_t> seen;  // the nodes of each stream that this one is behind
  };
  struct Node {  // work in a graph being captured
    uint64_t capture;
    StreamHandle stream;
    Kernel kernel;
  };
  struct Event {
    StreamHandle stream;
    uint64_t number;
  };
  struct Mark {
    uint64_t capture;
    StreamHandle stream;
    uint64_t node;
  };
  struct Physical {
    size_t bytes;
    bool destroyed = false;
    bool mapped = false;
  };
  using Lock = std::lock_guard<std::recursive_mutex>;

  size_t granularity() const noexcept override { return granule_bytes; }
  void* reserve(size_t bytes) noexcept override;
  void unreserve(void* base, size_t bytes) noexcept override;
  PhysicalMemory create(size_t bytes) noexcept override;
  void destroy(PhysicalMemory memory) noexcept override;
  bool map(void* address, size_t bytes, PhysicalMemory memory) noexcept override;
  void unmap(void* address, size_t bytes) noexcept override;

  void called(const char* function, bool allowed_in_capture);
  bool capturing() const;
  uintptr_t place(size_t bytes);
  bool owned(uintptr_t begin, uintptr_t end) const;
  void drop_if_unused(std::map<PhysicalMemory, Physical>::iterator memory);

  const size_t capacity_;
  FaultPoint fault_;
  mutable std::recursive_mutex mutex_;  // guards what follows
  size_t used_ = 0;
  std::map<uintptr_t, size_t> blocks_;          // begin → bytes
  std::map<uintptr_t, size_t> ranges_;          // reserved addresses
  std::map<uintptr_t, PhysicalMemory> mapped_;  // granule → memory
  std::set<uintptr_t> worked_;                  // granules that work was queued on
  std::map<PhysicalMemory, Physical> physical_;
  std::map<StreamHandle, Stream> streams_;
  std::map<uintptr_t, Event> events_;
  std::vector<Mark> marks_;
  std::vector<Node> nodes_;  // of captures underway
  uint64_t next_event_ = 1, next_capture_ = 1, next_physical_ = 1;
  std::map<std::string, size_t> calls_;
  std::string violation_;
};

}  // namespace lathe
