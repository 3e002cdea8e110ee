// LruCache: what it keeps and what it drops.
#include "lathe/ops/lru_cache.h"

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>

using lathe::LruCache;

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
