// A fake device in the place of a GPU, with what an allocator has to know about one:
//
//   - Taking memory is slow, and giving it back waits for all work. So both are to be rare.
//   - The host only queues kernels, the functions that compute. When launch() returns, nothing has
//     been computed yet.
//   - A stream is a queue of kernels. Those of one stream run in the order in which they were
//     queued, those of two streams in any order.
//
// The ops of this library compute at once, on the host, and queue nothing. The device is here for
// the pool (pool.h), which on a GPU must give memory out while kernels are still waiting:
//
//   void* a = pool.allocate(512);
//   device.launch(0, [=] { read(a); });   // queued: a has not been read yet
//   pool.deallocate(a);                   // nor has it now
//   void* b = pool.allocate(512);         // b == a
//   device.launch(0, [=] { write(b); });  // safe: in the queue it is behind the read
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "error.h"

namespace tiny {

using Stream = int;  // the number of a queue; 0 is the default one

/// A point in a stream: behind all that was queued before record().
struct Event {
  Stream stream = 0;
  size_t kernels = 0;  // that the stream must have run
};

/// Not thread-safe: the pool calls it under its lock.
class Device {
 public:
  explicit Device(size_t bytes)
      : bytes_(bytes), memory_(std::make_unique_for_overwrite<std::byte[]>(bytes)) {}
  /// `bytes` > 0 bytes at the lowest address where they fit; null where they fit nowhere.
  std::byte* take(size_t bytes) {
    ++calls_;
    size_t begin = 0;
    for (const auto& [taken, size] : taken_) {
      if (taken - begin >= bytes) break;
      begin = taken + size;
    }
    if (bytes_ - begin < bytes) return nullptr;
    taken_[begin] = bytes;
    return memory_.get() + begin;
  }

  /// Gives back what take() gave. Waits for all work that is queued, as cudaFree does.
  void give_back(std::byte* block) {
    ++calls_;
    synchronize();
    check<ValueError>(taken_.erase(block - memory_.get()) == 1, "give_back: memory of no take()");
  }

  /// Queues a kernel.
  void launch(Stream stream, std::function<void()> kernel) {
    streams_[stream].waiting.push_back(std::move(kernel));
  }

  /// Lets the device run what is queued on a stream.
  void run(Stream stream) {
    Queue& queue = streams_[stream];
    for (; !queue.waiting.empty(); ++queue.done) {
      queue.waiting.front()();
      queue.waiting.pop_front();
    }
  }

  /// Waits for all work: here, does it.
  void synchronize() {
    for (const auto& [stream, queue] : streams_) run(stream);
  }

  Event record(Stream stream) {
    const Queue& queue = streams_[stream];
    return {stream, queue.done + queue.waiting.size()};
  }
  bool has_passed(const Event& event) const {
    const auto queue = streams_.find(event.stream);
    return queue != streams_.end() && queue->second.done >= event.kernels;
  }

  size_t calls() const { return calls_; }  // slow ones: take() and give_back()

 private:
  struct Queue {
    std::deque<std::function<void()>> waiting;  // oldest first
    size_t done = 0;
  };

  size_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::map<size_t, size_t> taken_;  // place in memory_ → bytes
  std::map<Stream, Queue> streams_;
  size_t calls_ = 0;
};

}  // namespace tiny

// What the real one adds, and why
// - core/memory/raw_memory.h is this interface, core/gpu/memory_cuda.cpp a GPU behind it.
