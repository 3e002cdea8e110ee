// The most recently used values, by key: LruMap for one thread, LruCache for several.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lathe {

/// Keeps at most `limit` values. When one more is added, the value that has gone longest without
/// being asked for is dropped. Values do not move while they are kept. Keys are hashed where a Hash
/// is given, else ordered. If a call throws, the map stays as it was.
template <class Key, class Value, class Hash = void>
class LruMap {
 public:
  explicit LruMap(size_t limit) : limit_(limit) {}
  LruMap(const LruMap&) = delete;
  LruMap& operator=(const LruMap&) = delete;

  /// The value of `key`, null if there is none; it is now the most recently asked for. Allocates
  /// nothing.
  Value* find(const Key& key) {
    const auto at = places_.find(key);
    if (at == places_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, at->second);
    return &at->second->second;
  }

  /// Adds a key that is not there yet.
  Value& add(const Key& key, Value value) {
    Entries added;
    added.emplace_front(key, std::move(value));
    places_.emplace(added.front().first, added.begin());
    entries_.splice(entries_.begin(), added);
    if (entries_.size() > limit_) {
      places_.erase(entries_.back().first);
      entries_.pop_back();
    }
    return entries_.front().second;
  }

  void erase(const Key& key) {
    const auto at = places_.find(key);
    if (at == places_.end()) return;
    const auto entry = at->second;  // holds the key that `places_` refers to
    places_.erase(at);
    entries_.erase(entry);
  }

  void clear() {
    places_.clear();
    entries_.clear();
  }

  size_t size() const { return entries_.size(); }
  /// Pairs of key and value, the most recently asked for first.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  using Entries = std::list<std::pair<const Key, Value>>;  // the most recently asked for first
  using Place = typename Entries::iterator;
  using KeyOfEntry = std::reference_wrapper<const Key>;

  struct Less {
    bool operator()(const Key& a, const Key& b) const { return a < b; }
  };
  struct Equal {
    bool operator()(const Key& a, const Key& b) const { return a == b; }
  };
  using Places = std::conditional_t<std::is_void_v<Hash>, std::map<KeyOfEntry, Place, Less>,
                                    std::unordered_map<KeyOfEntry, Place, Hash, Equal>>;

  const size_t limit_;
  Entries entries_;
  Places places_;
};

/// An LruMap that threads share. A value that was handed out stays valid for as long as its holder
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
