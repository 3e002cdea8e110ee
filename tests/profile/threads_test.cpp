// Ranges of many threads, which come and go while recordings begin and end.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "lathe/core/hooks/live_memory.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/ops/creation.h"
#include "lathe/profile/profiler.h"
#include "lathe/tests/profile/recorded.h"

namespace lathe::profile {
namespace {

TEST_CASE("profiler: each thread has its own ranges, also one that has ended") {
  Profiler profiler;
  constexpr int kThreads = 4, kRanges = 1000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < kRanges; ++i) {
        const Range outer("outer");
        const Range inner("inner");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  profiler.stop();
  int with_ranges = 0;
  for (const ThreadRecords& thread : profiler.recording().threads) {
    if (thread.records.size() != size_t{2 * kRanges}) continue;
    ++with_ranges;
    const std::vector<int64_t> parents = parents_of(thread.records);
    for (size_t i = 0; i < thread.records.size(); i += 2) {  // inner ranges end first
      CHECK(parents[i] == static_cast<int64_t>(i + 1));
      CHECK(parents[i + 1] == -1);
    }
  }
  CHECK(with_ranges == kThreads);
}

TEST_CASE("profiler: recordings begin and end while threads work") {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&done] {
      while (!done) {
        const Range outer("outer");
        const Range inner("inner");
        note_flops([] { return 1; });
      }
    });
  }
  for (int round = 0; round < 50; ++round) {
    Profiler profiler({.profile_memory = true, .max_ranges = 10'000});
    { const Range own("own"); }
    profiler.stop();
    CHECK(count_named(profiler.recording(), "own") == 1);
    for (const ThreadRecords& thread : profiler.recording().threads) {
      for (const Record& record : thread.records) CHECK(record.begin_ns <= record.end_ns);
    }
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("LiveMemory: records begin and end while threads make tensors, drop them and ask") {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&done] {
      std::vector<Tensor> kept(8);
      for (size_t i = 0; !done; ++i) kept[i % kept.size()] = empty({64});
    });
  }
  threads.emplace_back([&done] {
    while (!done) CHECK(who_holds(kCPU, false).starts_with("tensors hold: "));
  });
  for (int round = 0; round < 300; ++round) {
    LiveMemory memory;
    const Tensor own = empty({1000});
    memory.step();
    CHECK(memory.live().front().bytes == own.bytes());
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace lathe::profile
