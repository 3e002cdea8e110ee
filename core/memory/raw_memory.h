// Memory of a device as core/memory/block_pool sees it: what to take it with, what to give it back with,
// and events that tell when queued work is done. Implementations: device and pinned memory in the
// CUDA backend; a fake in tests/core/fake_memory.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lathe/core/config.h"

namespace lathe {

using StreamHandle = void*;       // a queue of device work; null is the default one
using EventHandle = void*;        // a point in a queue; never null
using CaptureMark = uint64_t;     // a point in a graph being captured; never 0
using PhysicalMemory = uint64_t;  // memory without an address; never 0

struct MemoryInfo {
  size_t free_bytes = 0, total_bytes = 0;
};

/// Addresses and memory apart, for segments that grow in place. Calls act on the device of the
/// memory, whichever device the thread has current. All may be made during captures, except for
/// unmap() of memory that was ever handed out.
class LATHE_API VirtualMemory {
 public:
  virtual ~VirtualMemory() = default;

  /// Sizes and offsets of everything below are multiples of this.
  virtual size_t granularity() const noexcept = 0;

  /// A range of addresses with nothing behind them, or null.
  virtual void* reserve(size_t bytes) noexcept = 0;
  virtual void unreserve(void* base, size_t bytes) noexcept = 0;

  /// Memory without an address, or 0 if there is none. It lasts until it was both destroyed and
  /// unmapped.
  virtual PhysicalMemory create(size_t bytes) noexcept = 0;
  virtual void destroy(PhysicalMemory memory) noexcept = 0;

  /// Puts memory of one granule behind addresses, readable and writable. False: nothing was mapped.
  virtual bool map(void* address, size_t bytes, PhysicalMemory memory) noexcept = 0;

  /// Takes away what was mapped there by one or several calls, all of which lie inside the range.
  /// Does not wait: no queued work may use the range.
  virtual void unmap(void* address, size_t bytes) noexcept = 0;
};

/// Calls act on one device, whichever device the thread has current. No call throws. The pool makes
/// them one at a time. While a capture is underway it makes only those marked so; they may come
/// from the capturing thread and must not disturb the capture.
class LATHE_API RawMemory {
 public:
  virtual ~RawMemory() = default;

  /// False once the driver is shut down (at the end of the process); then nothing else is called.
  /// (During captures too.)
  virtual bool is_alive() const noexcept { return true; }

  /// `bytes` > 0 of memory aligned to 512 bytes, or null; a refusal leaves no error behind in the
  /// runtime. (During captures too.)
  virtual void* allocate(size_t bytes) noexcept = 0;

  /// Gives memory back. Waits for queued work that uses it (as cudaFree does).
  virtual void deallocate(void* block) noexcept = 0;

  /// An event after all work queued on `stream` so far, or null if there can be none (a destroyed
  /// stream). Owned by the caller until release(). Events come from a cache and measure no time.
  virtual EventHandle record(StreamHandle stream) noexcept = 0;
  virtual void release(EventHandle event) noexcept = 0;

  /// Whether all work before the event is done. False also when that cannot be known.
  virtual bool query(EventHandle event) noexcept = 0;

  /// Waits for all work on the device. False if that failed.
  virtual bool synchronize() noexcept = 0;

  virtual MemoryInfo mem_info() noexcept = 0;

  /// Which capture the stream, never null, takes part in, 0 if in none. A capture that was
  /// invalidated but not ended counts: until then the driver refuses the same calls. (During
  /// captures too.)
  virtual uint64_t capture_id(StreamHandle) noexcept { return 0; }

  /// The point that a capturing stream has reached (0: not known), and whether `stream`, captured
  /// into the same graph, is behind it: all that it queues from now on runs after that point. With
  /// these, memory that several streams of one capture used is reused within the capture; without,
  /// after it. (During captures too.)
  virtual CaptureMark capture_mark(StreamHandle) noexcept { return 0; }
  virtual bool is_behind(StreamHandle /*stream*/, CaptureMark) noexcept { return false; }

  /// For expandable segments; null where there is none.
  virtual VirtualMemory* virtual_memory() noexcept { return nullptr; }
};

}  // namespace lathe
