// The search between threads: one search per key, whatever happens in it. Run under
// ThreadSanitizer.
#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fake_library.h"
#include "lathe/core/error.h"
#include "temporary_file.h"

namespace lathe {
namespace {

constexpr int kThreads = 8;

// Runs f(thread) in threads that begin together.
void in_threads(const std::function<void(int)>& f) {
  std::barrier begin(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      begin.arrive_and_wait();
      f(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

TEST_CASE("threads: many that miss on one key search once") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  library.when_listed = [] { sleep_ms(20); };
  ConvSearch search(10, library.clock());
  std::atomic<int> wrong = 0;
  in_threads([&](int) { wrong += run(search, library, example_key()) != 2; });
  CHECK(wrong == 0);
  CHECK(library.lists == 1);
  CHECK(library.executes == kThreads);
  CHECK(search.stats().searches == 1);
  CHECK(search.stats().hits + search.stats().misses == kThreads);
}

TEST_CASE("threads: what a search throws reaches all who wait for it, and is not kept") {
  FakeLibrary library;
  ConvSearch search(10, library.clock());
  library.when_listed = [&] {
    while (search.stats().misses < kThreads) sleep_ms(1);  // until all have asked
    throw std::runtime_error("the search ends");
  };
  std::atomic<int> thrown = 0;
  in_threads([&](int) {
    try {
      run(search, library, example_key());
    } catch (const std::runtime_error& error) {
      thrown += std::string(error.what()) == "the search ends";
    }
  });
  CHECK(thrown == kThreads);
  CHECK(library.lists == 1);
  CHECK(!search.find(example_key()));
  library.when_listed = {};
  library.engines = {fake_engine(1, 1)};
  CHECK(run(search, library, example_key()) == 1);
}

TEST_CASE("threads: searches of several keys run one at a time") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1)};
  std::atomic<int> inside = 0, overlaps = 0;
  library.when_listed = [&] {
    overlaps += inside.fetch_add(1) > 0;
    sleep_ms(5);
    --inside;
  };
  ConvSearch search(100, library.clock());
  const std::vector<ConvKey> keys = example_keys(kThreads);
  in_threads([&](int i) { run(search, library, keys[static_cast<size_t>(i)]); });
  CHECK(overlaps == 0);
  CHECK(search.stats().searches == kThreads);
}

TEST_CASE("threads: a key that is known is not held up by a search") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1)};
  ConvSearch search(100, library.clock());
  const std::vector<ConvKey> keys = example_keys(2);
  run(search, library, keys[0]);
  std::atomic<bool> searching = false, hit = false;
  library.when_listed = [&] {
    searching = true;
    for (int i = 0; i < 2000 && !hit; ++i) sleep_ms(1);
  };
  std::thread other([&] { run(search, library, keys[1]); });
  while (!searching) sleep_ms(1);
  run(search, library, keys[0]);
  hit = true;
  other.join();
  CHECK(search.stats().hits == 1);
}

TEST_CASE("threads: an engine that fails for all of them at once is dropped, and all compute") {
  const Warnings warnings;
  FakeLibrary library;
  library.engines = {fake_engine(1, 1), fake_engine(2, 2), fake_engine(3, 3)};
  ConvSearch search(10, library.clock());
  run(search, library, example_key());
  library.engines[0].fails_when_executed = library.engines[1].fails_when_executed = "no";
  std::atomic<int> wrong = 0;
  in_threads([&](int) { wrong += run(search, library, example_key()) != 3; });
  CHECK(wrong == 0);
  CHECK(search.find(example_key())->info().engine.index == 3);
  CHECK(library.lists == 1);
}

TEST_CASE("threads: lookups, evictions, settings and files at once") {
  const TemporaryFile file;
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  ConvSearch search(3, library.clock());
  const std::vector<ConvKey> keys = example_keys(6);
  std::atomic<int> wrong = 0;
  in_threads([&](int i) {
    std::vector<ConvMemo> memos(keys.size());
    for (int round = 0; round < 30; ++round) {
      const auto at = static_cast<size_t>(i + round) % keys.size();
      if (i == 0 && round % 10 == 0) search.set_file(round == 10 ? file.path : "");
      if (i == 1 && round % 7 == 0) search.clear();
      if (i == 2) search.set_limits({.per_engine = 5});
      wrong += run(search, library, keys[at]) != 2;
      FakeEngines engines(library);
      search.run(keys[at], engines, memos[at]);
      wrong += search.choices().size() > 3;
      search.stats();
      search.limits();
      search.file();
      search.find(keys[at]);
    }
  });
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace lathe
