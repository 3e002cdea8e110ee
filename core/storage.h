// Storage: one block of memory on one device, shared by all tensors that view it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "lathe/core/allocator.h"
#include "lathe/core/device.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/intrusive.h"

namespace lathe {

/// A block of memory and its version, a counter that every in-place write raises. Saved tensors
/// compare it, so that a backward pass over changed values is an error and not a wrong number.
class LATHE_API Storage final : public RefCounted {
 public:
  /// `bytes` of uninitialised memory; for 0 bytes nothing is allocated.
  ///   pinned  host memory that GPUs read and write by themselves
  /// throws: OutOfMemoryError; NoCudaError for a GPU or pinned memory; DeviceError if pinned and
  /// not on the CPU.
  Storage(int64_t bytes, Device device, bool pinned = false);

  /// Memory that the caller owns. `release` (may be empty) runs when the last tensor is gone.
  Storage(void* data, int64_t bytes, Device device, std::function<void()> release);

  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool pinned() const { return pinned_; }
  bool is_borrowed() const { return allocator_ == nullptr; }  // the caller's memory, or none
  uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

  /// What the memory is for: what the thread said when it was made (core/hooks/memory_tag.h), or
  /// set_tag() since.
  profile::MemoryTag tag() const { return tag_.load(std::memory_order_relaxed); }
  void set_tag(profile::MemoryTag tag) noexcept;

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
  Allocator* allocator_ = nullptr;  // null: the caller's memory
  std::function<void()> release_;
  std::atomic<uint32_t> version_{0};
  Device device_;
  bool pinned_ = false;
  std::atomic<profile::MemoryTag> tag_{profile::MemoryTag::kOther};
};

inline void add_reference(Storage* s) { s->add_ref(); }
inline void drop_reference(Storage* s) {
  if (s->drop_ref()) delete s;
}
using StoragePtr = IntrusivePtr<Storage>;

}  // namespace lathe
