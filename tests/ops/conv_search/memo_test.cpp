// What a caller keeps of a choice: the next call finds it at no cost, and never a stale one.
#include <doctest/doctest.h>

#include <thread>

#include "../../count_calls.h"
#include "fake_library.h"
#include "lathe/core/error.h"
#include "temporary_file.h"

namespace lathe {
namespace {

/// One caller.
struct Caller {
  int64_t run() {
    FakeEngines engines(library);
    search.run(key, engines, memo);
    return library.last_executed;
  }

  ConvSearch& search;
  FakeLibrary& library;
  ConvKey key = example_key();
  ConvMemo memo = {};
};

TEST_CASE("memo: a known choice is found without lock or allocation, and is a hit") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  ConvSearch search(10, library.clock());
  Caller caller{search, library};
  REQUIRE(test::count_calls([&] { caller.run(); }).allocations > 0);
  const test::CallCount calls = test::count_calls([&] {
    for (int i = 0; i < 100; ++i) caller.run();
  });
  CHECK(calls.allocations == 0);
  CHECK(calls.locks == 0);
  CHECK(library.executes == 101);
  CHECK(search.stats().hits == 100);
  CHECK(search.stats().misses == 1);
  CHECK((!test::kCountsLocks || test::count_calls([&] { search.stats(); }).locks > 0));
}

TEST_CASE("memo: what another caller drops is dropped for all, at once") {
  const Warnings log;
  FakeLibrary library;
  library.engines = {fake_engine(1, 1), fake_engine(2, 2)};
  ConvSearch search(10, library.clock());
  Caller a{search, library}, b{search, library};
  CHECK(a.run() == 1);
  CHECK(b.run() == 1);
  library.engines[0].fails_when_executed = "misaligned address";
  std::thread([&] { CHECK(b.run() == 2); }).join();
  library.engines[0].fails_when_executed = "";
  CHECK(a.run() == 2);
  CHECK(b.run() == 2);
  CHECK(search.stats().dropped == 1);
  CHECK(library.lists == 1);
}

TEST_CASE("memo: clear() makes callers search again") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1)};
  ConvSearch search(10, library.clock());
  Caller caller{search, library};
  caller.run();
  search.clear();
  library.engines.insert(library.engines.begin(), fake_engine(2, 0.5));
  CHECK(caller.run() == 2);
  CHECK(library.lists == 2);
}

TEST_CASE("memo: a call that a capture refused leaves nothing, and neither does one that failed") {
  const Warnings log;
  FakeLibrary library;
  library.engines = {fake_engine(1, 2), fake_engine(2, 1)};
  ConvSearch search(10, library.clock());
  Caller caller{search, library};
  library.capturing = true;
  CHECK_THROWS_AS(caller.run(), StateError);
  library.capturing = false;
  CHECK(caller.run() == 2);
  for (FakeEngine& engine : library.engines) engine.fails_when_executed = "no";
  CHECK_THROWS_AS(caller.run(), CudaError);
  for (FakeEngine& engine : library.engines) engine.fails_when_executed = "";
  CHECK(caller.run() == 2);
}

TEST_CASE("memo: of a search that is gone it says nothing to the next") {
  FakeLibrary library;
  library.engines = {fake_engine(1, 1)};
  ConvMemo memo;
  for (int i = 0; i < 3; ++i) {
    ConvSearch search(10, library.clock());
    FakeEngines engines(library);
    search.run(example_key(), engines, memo);
    CHECK(search.stats().misses == 1);
  }
}

}  // namespace
}  // namespace lathe
