// IntrusivePtr: a shared handle whose count is in the object. A handle is one word, object and
// count are one allocation, and there are no weak handles.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace lathe {

/// A thread-safe reference count to inherit from. Copying the object does not copy the count.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) {}
  RefCounted& operator=(const RefCounted&) { return *this; }

  void add_ref() const noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  /// True if this was the last reference.
  bool drop_ref() const noexcept {
    // A sole owner needs no read-modify-write: nobody else can reach the object.
    if (refs_.load(std::memory_order_acquire) == 1) return true;
    return refs_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  uint32_t use_count() const noexcept { return refs_.load(std::memory_order_acquire); }

 private:
  mutable std::atomic<uint32_t> refs_{0};
};

/// Handle to a RefCounted T. The last handle releases the object. The calls `add_reference(T*)` and
/// `drop_reference(T*)` are found by argument-dependent lookup, so T may be incomplete here.
template <class T>
class IntrusivePtr {
 public:
  constexpr IntrusivePtr() = default;
  explicit IntrusivePtr(T* object) : object_(object) {
    if (object_ != nullptr) add_reference(object_);
  }
  IntrusivePtr(const IntrusivePtr& other) : IntrusivePtr(other.object_) {}
  IntrusivePtr(IntrusivePtr&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  IntrusivePtr& operator=(IntrusivePtr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~IntrusivePtr() { reset(); }

  void reset() noexcept {
    if (T* object = std::exchange(object_, nullptr)) drop_reference(object);
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool operator==(const IntrusivePtr& other) const { return object_ == other.object_; }

 private:
  T* object_ = nullptr;
};

}  // namespace lathe
