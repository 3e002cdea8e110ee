// LruMap: the values asked for last, by key. For one thread; lru_cache.h has the lock.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace lathe {

/// Keeps at most `limit` values; a new one beyond that drops the one that was not asked for the
/// longest. Values stay where they are for as long as they are kept. Keys are hashed where a Hash
/// is given, else ordered. What throws leaves the map as it was.
template <class Key, class Value, class Hash = void>
class LruMap {
 public:
  explicit LruMap(size_t limit) : limit_(limit) {}
  LruMap(const LruMap&) = delete;
  LruMap& operator=(const LruMap&) = delete;

  /// The value of `key`, which is now the one asked for last; null if there is none. Takes no
  /// memory.
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
    const auto entry = at->second;  // which holds the key that `places_` looks at
    places_.erase(at);
    entries_.erase(entry);
  }

  void clear() {
    places_.clear();
    entries_.clear();
  }

  size_t size() const { return entries_.size(); }
  /// Pairs of key and value, the one asked for last first.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  using Entries = std::list<std::pair<const Key, Value>>;  // the one asked for last is in front
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

}  // namespace lathe
