// LruCache and LruMap: what they keep and what they drop.
#include "lathe/ops/plans/lru_cache.h"

#include <doctest/doctest.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>

using lathe::LruCache;
using lathe::LruMap;

TEST_CASE("LruCache: makes a value once and drops the one unused for the longest") {
  LruCache<int, std::string> cache(2);
  int made = 0;
  const auto get = [&](int key) { return *cache.get(key, [&] { return std::to_string(++made); }); };
  CHECK(get(1) == "1");
  CHECK(get(2) == "2");
  CHECK(get(1) == "1");  // 2 is now the older one
  CHECK(get(3) == "3");
  CHECK(cache.size() == 2);
  CHECK(get(1) == "1");
  CHECK(get(2) == "4");
}

TEST_CASE("LruCache: a value outlives its place, and a failed make changes nothing") {
  LruCache<int, std::string> cache(1);
  const auto kept = cache.get(1, [] { return std::string("one"); });
  CHECK_THROWS_AS(cache.get(2, []() -> std::string { throw std::runtime_error("no"); }),
                  std::runtime_error);
  CHECK(cache.size() == 1);
  cache.get(3, [] { return std::string("three"); });
  CHECK(*kept == "one");
}

TEST_CASE("LruCache: when memory for a key is missing nothing is kept of it") {
  struct Key {
    explicit Key(int n) : number(n) {}
    Key(const Key& other) : number(other.number), copies_left(other.copies_left) {
      if (copies_left != nullptr && (*copies_left)-- == 0) throw std::bad_alloc();
    }
    bool operator<(const Key& other) const { return number < other.number; }
    int number;
    int* copies_left = nullptr;
  };
  const auto value = std::make_shared<const int>(7);
  LruCache<Key, int> cache(2);
  int left = 0;
  Key key(1);
  key.copies_left = &left;
  CHECK_THROWS_AS(cache.put(key, value), std::bad_alloc);
  CHECK(cache.size() == 0);
  for (const int n : {1, 2, 3}) cache.put(Key(n), value);
  CHECK(!cache.find(Key(1)));
  CHECK(cache.find(Key(2)));
  CHECK(cache.find(Key(3)));
}

TEST_CASE("LruCache: find, put, erase, entries and clear") {
  LruCache<int, std::string> cache(2);
  const auto put = [&](int key, const char* value) {
    cache.put(key, std::make_shared<const std::string>(value));
  };
  CHECK(!cache.find(1));
  put(1, "one");
  put(2, "two");
  put(1, "uno");  // in the place of "one", and the newest now
  CHECK(*cache.find(1) == "uno");
  CHECK(*cache.find(2) == "two");
  put(3, "three");
  CHECK(!cache.find(1));
  REQUIRE(cache.entries().size() == 2);
  CHECK(cache.entries()[0].first == 3);
  CHECK(*cache.entries()[1].second == "two");
  cache.erase(2);
  cache.erase(2);
  CHECK(!cache.find(2));
  CHECK(cache.size() == 1);
  cache.clear();
  CHECK(cache.size() == 0);
  CHECK(!cache.find(3));
}

TEST_CASE("LruMap: hashed keys, values that stay where they are, and need not be copied") {
  struct Hash {
    size_t operator()(const std::string& key) const { return key.size(); }  // many alike
  };
  LruMap<std::string, std::unique_ptr<int>, Hash> map(3);
  const auto add = [&](const char* key, int n) -> std::unique_ptr<int>& {
    return map.add(key, std::make_unique<int>(n));
  };
  std::unique_ptr<int>* const first = &add("a", 1);
  add("b", 2);
  add("c", 3);
  CHECK(map.find("a") == first);
  add("dd", 4);  // in the place of b
  CHECK(map.size() == 3);
  CHECK(map.find("b") == nullptr);
  REQUIRE(map.find("a") == first);
  CHECK(**first == 1);
  CHECK(map.begin()->first == "a");
  map.erase("a");
  map.erase("a");
  CHECK(map.find("a") == nullptr);
  CHECK(**map.find("c") == 3);
  map.clear();
  CHECK(map.size() == 0);
  CHECK(map.find("c") == nullptr);
}
