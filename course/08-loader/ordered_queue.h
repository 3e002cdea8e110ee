// The queue of a loader with several workers, which finish in any order.
#pragma once

#include "tiny/loader.h"

namespace course {

/// Thread-safe. Elements come out by their numbers, 0, 1, 2, …, in whatever order they go in. The
/// number that comes out next is `next`.
template <class T>
class OrderedQueue {
 public:
  /// capacity: how many elements may be in it, 1 or more.
  explicit OrderedQueue(size_t capacity) : capacity_(capacity) {}

  /// Waits until number < next + capacity. So the element that is next never waits for a place.
  /// Each number is pushed once. False, and `element` is dropped, if the queue was closed.
  bool push(size_t number, T element) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return number < next_ + capacity_ || closed_; });
    if (closed_) return false;
    elements_.emplace(number, std::move(element));
    changed_.notify_all();
    return true;
  }

  /// Waits for the element that is next. None if the queue was closed without it.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return elements_.contains(next_) || closed_; });
    const auto found = elements_.find(next_);
    if (found == elements_.end()) return std::nullopt;
    T element = std::move(found->second);
    elements_.erase(found);
    ++next_;
    changed_.notify_all();
    return element;
  }

  /// From now on push() takes nothing, and pop() gives what is left up to the first gap.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  const size_t capacity_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<size_t, T> elements_;  // by number
  size_t next_ = 0;
  bool closed_ = false;
};

}  // namespace course
