// A device's memory as core/memory/block_pool sees it: calls that take memory and give it back, and
// events that tell when queued work is done. Implementations: device and pinned memory in
// core/gpu/memory_cuda.cpp; a fake in tests/core/fake_memory.h.
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

/// Addresses and memory as separate things, for segments that grow in place. Calls act on the
/// device of the memory, whichever device the thread has current. All may be made during captures,
/// except unmap() of memory that was ever handed out.
class LATHE_API VirtualMemory {
 public:
  virtual ~VirtualMemory() = default;

  /// All sizes and offsets below are multiples of this.
  virtual size_t granularity() const noexcept = 0;

  /// A range of addresses without memory, or null.
  virtual void* reserve(size_t bytes) noexcept = 0;
  virtual void unreserve(void* base, size_t bytes) noexcept = 0;

  /// Memory without an address, or 0 if there is none. It lasts until it is both destroyed and
  /// unmapped.
  virtual PhysicalMemory create(size_t bytes) noexcept = 0;
  virtual void destroy(PhysicalMemory memory) noexcept = 0;

  /// Maps memory of one granule at addresses, readable and writable. False: nothing was mapped.
  virtual bool map(void* address, size_t bytes, PhysicalMemory memory) noexcept = 0;

  /// Removes the mappings that one or several calls of map() made inside the range. Does not wait:
  /// no queued work may use the range.
  virtual void unmap(void* address, size_t bytes) noexcept = 0;
};

/// Calls act on one device, whichever device the thread has current. No call throws. The pool makes
/// one call at a time. While a capture is underway it makes only the calls marked below; these may
/// come from the capturing thread and must not disturb the capture.
class LATHE_API RawMemory {
 public:
  virtual ~RawMemory() = default;

  /// False once the driver is shut down, at the end of the process. The pool then makes no other
  /// call. (During captures too.)
  virtual bool is_alive() const noexcept { return true; }

  /// `bytes` > 0 bytes of memory aligned to 512 bytes, or null. A refusal leaves no error behind in
  /// the runtime. (During captures too.)
  virtual void* allocate(size_t bytes) noexcept = 0;

  /// Gives memory back. Waits for queued work that uses it (as cudaFree does).
  virtual void deallocate(void* block) noexcept = 0;

  /// An event after all work queued on `stream` so far, or null if the stream takes none (it was
  /// destroyed). The caller owns it until release(). Events come from a cache and measure no time.
  virtual EventHandle record(StreamHandle stream) noexcept = 0;
  virtual void release(EventHandle event) noexcept = 0;

  /// True if all work before the event is done. False also if that is not known.
  virtual bool query(EventHandle event) noexcept = 0;

  /// Waits for all work on the device. False if that failed.
  virtual bool synchronize() noexcept = 0;

  virtual MemoryInfo mem_info() noexcept = 0;

  /// The capture that the stream, never null, takes part in; 0 if none. An invalidated capture that
  /// was not ended counts, because the driver still refuses the same calls. (During captures too.)
  virtual uint64_t capture_id(StreamHandle) noexcept { return 0; }

  /// The point that a capturing stream has reached, or 0 if it is not known; and whether `stream`,
  /// captured into the same graph, is behind a point: all that it queues from now on runs after it.
  /// With these two, memory that several streams of one capture used is reused within the capture;
  /// without them, only after it. (During captures too.)
  virtual CaptureMark capture_mark(StreamHandle) noexcept { return 0; }
  virtual bool is_behind(StreamHandle /*stream*/, CaptureMark) noexcept { return false; }

  /// For expandable segments; null if the device has none.
  virtual VirtualMemory* virtual_memory() noexcept { return nullptr; }
};

}  // namespace lathe
