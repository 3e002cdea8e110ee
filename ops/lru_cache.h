// LruCache: an LruMap (lru_map.h) that threads share.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "lathe/ops/lru_map.h"

namespace lathe {

/// Keeps at most `limit` values. When one more is added, the value that has gone longest without
/// being asked for is dropped. A value that was handed out stays valid for as long as its holder
/// keeps it. Thread-safe.
template <class Key, class Value>
class LruCache {
 public:
  using Pointer = std::shared_ptr<const Value>;

  explicit LruCache(size_t limit) : map_(limit) {}

  /// The value of `key`; if there is none, make() makes it. make runs without the lock: two threads
  /// that miss at the same time both make one, and the first to finish is kept. If make throws, the
  /// cache stays as it was.
  template <class Make>
  Pointer get(const Key& key, Make&& make) {
    if (Pointer found = find(key)) return found;
    Pointer made = std::make_shared<const Value>(make());
    const std::lock_guard lock(mutex_);
    if (const Pointer* const other = map_.find(key)) return *other;
    return map_.add(key, std::move(made));
  }

  /// The value of `key`, null if there is none.
  Pointer find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const Pointer* const found = map_.find(key);
    return found == nullptr ? nullptr : *found;
  }

  /// Makes `value` the key's value, in place of an earlier one.
  void put(const Key& key, Pointer value) {
    const std::lock_guard lock(mutex_);
    if (Pointer* const found = map_.find(key)) {
      *found = std::move(value);
    } else {
      map_.add(key, std::move(value));
    }
  }

  void erase(const Key& key) {
    const std::lock_guard lock(mutex_);
    map_.erase(key);
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    map_.clear();
  }

  /// All keys and values, the most recently asked for first.
  std::vector<std::pair<Key, Pointer>> entries() const {
    const std::lock_guard lock(mutex_);
    return {map_.begin(), map_.end()};
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return map_.size();
  }

 private:
  mutable std::mutex mutex_;
  LruMap<Key, Pointer> map_;
};

}  // namespace lathe
