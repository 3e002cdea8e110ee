// LruCache: the values made last, by key. Thread-safe.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lathe {

/// Keeps at most `limit` values; a new one beyond that drops the one that was not asked for the
/// longest. A value that was handed out stays valid for as long as its holder keeps it.
template <class Key, class Value>
class LruCache {
 public:
  using Pointer = std::shared_ptr<const Value>;

  explicit LruCache(size_t limit) : limit_(limit) {}

  /// The value of `key`, made by make() if there is none. make runs without the lock: two threads
  /// that miss at once both make one, and the first to finish is kept. What make throws leaves the
  /// cache as it was.
  template <class Make>
  Pointer get(const Key& key, Make&& make) {
    if (Pointer found = find(key)) return found;
    Pointer made = std::make_shared<const Value>(make());
    const std::lock_guard lock(mutex_);
    if (const auto at = places_.find(key); at != places_.end()) return at->second->second;
    add(key, std::move(made));
    return entries_.front().second;
  }

  /// The value of `key`, null if there is none.
  Pointer find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto at = places_.find(key);
    if (at == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, at->second);
    return at->second->second;
  }

  /// Makes `value` the key's value, in the place of the one it may have had.
  void put(const Key& key, Pointer value) {
    const std::lock_guard lock(mutex_);
    if (const auto at = places_.find(key); at != places_.end()) {
      entries_.splice(entries_.begin(), entries_, at->second);
      entries_.front().second = std::move(value);
    } else {
      add(key, std::move(value));
    }
  }

  void erase(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto at = places_.find(key);
    if (at == places_.end()) return;
    entries_.erase(at->second);
    places_.erase(at);
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    places_.clear();
    entries_.clear();
  }

  /// All keys and values, the one asked for last first.
  std::vector<std::pair<Key, Pointer>> entries() const {
    const std::lock_guard lock(mutex_);
    return {entries_.begin(), entries_.end()};
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  using Entries = std::list<std::pair<Key, Pointer>>;  // the one asked for last is in front

  // A key that is not there yet. What throws leaves the cache as it was.
  void add(const Key& key, Pointer value) {
    Entries added;
    added.emplace_front(key, std::move(value));
    places_.emplace(key, added.begin());
    entries_.splice(entries_.begin(), added);
    if (entries_.size() > limit_) {
      places_.erase(entries_.back().first);
      entries_.pop_back();
    }
  }

  const size_t limit_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::map<Key, typename Entries::iterator> places_;
};

}  // namespace lathe
