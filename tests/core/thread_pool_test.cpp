// The thread pool: every element once, chunks that ignore the thread count, errors, nesting,
// several callers, fork.
#include "lathe/core/thread_pool.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/core/compute_alone.h"
#include "lathe/core/error.h"
#include "lathe/core/log.h"
#include "lathe/core/start_thread.h"

namespace lathe {
namespace {

using Chunk = std::pair<int64_t, int64_t>;

// Puts the thread count back at the end of a test.
struct ThreadCount {
  explicit ThreadCount(int count) { set_num_threads(count); }
  ~ThreadCount() { set_num_threads(before); }
  int before = num_threads();
};

std::vector<Chunk> chunks_of(int64_t n, int64_t grain) {
  std::mutex mutex;
  std::vector<Chunk> chunks;
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    chunks.emplace_back(begin, end);
  });
  std::sort(chunks.begin(), chunks.end());
  return chunks;
}

TEST_CASE("parallel_for: the chunks tile [0, n) and do not depend on the thread count") {
  for (const auto& [n, grain] :
       std::vector<Chunk>{{0, 1}, {1, 1}, {7, 7}, {8, 7}, {100, 1}, {1001, 10}, {5, 100}}) {
    CAPTURE(n);
    CAPTURE(grain);
    std::vector<Chunk> want;
    for (int64_t begin = 0; begin < n; begin += grain)
      want.emplace_back(begin, std::min(n, begin + grain));
    for (const int threads : {1, 2, 5}) {
      const ThreadCount count(threads);
      CHECK(chunks_of(n, grain) == want);
    }
  }
}

TEST_CASE("parallel_for: sizes at the end of int64 do not overflow") {
  const ThreadCount count(2);
  const int64_t max = INT64_MAX;
  CHECK(chunks_of(max, max - 1) == std::vector<Chunk>{{0, max - 1}, {max - 1, max}});
  CHECK(chunks_of(-5, 3).empty());
}

TEST_CASE("parallel_for: a bad grain is an error") {
  CHECK_THROWS_WITH_AS(parallel_for(4, 0, [](int64_t, int64_t) {}),
                       doctest::Contains("parallel_for: grain must be at least 1, got 0"),
                       ValueError);
  CHECK_THROWS_WITH_AS(set_num_threads(0), doctest::Contains("must be at least 1, got 0"),
                       ValueError);
}

TEST_CASE("parallel_for: many short loops give complete results") {
  const ThreadCount count(3);
  std::vector<int64_t> values(64);
  for (int64_t round = 1; round <= 3000; ++round) {
    parallel_for(64, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] += i;
    });
    REQUIRE(values[63] == 63 * round);  // the caller sees what the workers wrote
    REQUIRE(values[1] == round);
  }
}

TEST_CASE(
    "parallel_for: of several errors the first chunk's is thrown, and the pool stays usable") {
  const ThreadCount count(4);
  for (int round = 0; round < 200; ++round) {
    const auto body = [](int64_t begin, int64_t) {
      if (begin % 10 == 7) LATHE_FAIL(IndexError, "element ", begin);
    };
    try {
      parallel_for(100, 1, body);
      FAIL("no error");
    } catch (const IndexError& error) {
      REQUIRE(error.message() == "element 7");
    }
  }
  CHECK(chunks_of(10, 1).size() == 10);
}

TEST_CASE("parallel_for: a loop inside a loop runs in its own thread") {
  const ThreadCount count(2);
  std::atomic<int> calls{0};
  std::atomic<bool> moved{false};
  parallel_for(8, 1, [&](int64_t, int64_t) {
    const auto outer = std::this_thread::get_id();
    parallel_for(5, 1, [&](int64_t, int64_t) {
      ++calls;
      if (std::this_thread::get_id() != outer) moved = true;
    });
  });
  CHECK(calls == 40);
  CHECK_FALSE(moved);
}

TEST_CASE("set_num_threads: refused inside a loop") {
  for (const int threads : {1, 2}) {
    const ThreadCount count(threads);
    CHECK_THROWS_WITH_AS(parallel_for(4, 1, [](int64_t, int64_t) { set_num_threads(3); }),
                         doctest::Contains("called inside a parallel_for body"), StateError);
    CHECK(num_threads() == threads);
  }
}

TEST_CASE("parallel_for: the caller and a worker both take chunks") {
  const ThreadCount count(2);
  std::mutex mutex;
  std::vector<std::thread::id> ids;
  std::atomic<int> present{0};
  parallel_for(2, 1,
               [&](int64_t, int64_t) {  // each chunk waits for the other one: needs two threads
                 ++present;
                 while (present < 2) std::this_thread::yield();
                 const std::lock_guard lock(mutex);
                 ids.push_back(std::this_thread::get_id());
               });
  REQUIRE(ids.size() == 2);
  CHECK(ids[0] != ids[1]);
  CHECK(std::count(ids.begin(), ids.end(), std::this_thread::get_id()) == 1);
}

TEST_CASE("ComputeAlone: its thread runs whole loops, others keep their helpers") {
  const ThreadCount count(3);
  const ComputeAlone outer;
  {
    const ComputeAlone inner;
    CHECK(num_threads() == 1);
  }
  CHECK(num_threads() == 1);  // still the outer one's
  const std::thread::id self = std::this_thread::get_id();
  std::atomic<int> elsewhere = 0, chunks = 0;
  parallel_for(64, 1, [&](int64_t, int64_t) {
    elsewhere += std::this_thread::get_id() != self;
    ++chunks;
    CHECK_THROWS_WITH_AS(set_num_threads(2), doctest::Contains("called inside a parallel_for body"),
                         StateError);
  });
  CHECK(elsewhere == 0);
  CHECK(chunks == 64);
  std::thread([] { CHECK(num_threads() == 3); }).join();
}

TEST_CASE("parallel_for: several threads may run loops and change the thread count at once") {
  const ThreadCount count(2);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 300; ++round) {
        parallel_for(20, 2, [&](int64_t begin, int64_t end) { total += end - begin; });
      }
    });
  }
  for (int round = 0; round < 20; ++round) set_num_threads(1 + round % 3);
  for (auto& caller : callers) caller.join();
  CHECK(total == 3 * 300 * 20);
}

TEST_CASE("thread pool: idle workers sleep") {
  const ThreadCount count(3);
  chunks_of(100, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::clock_t before = std::clock();  // processor time of the whole process
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const double busy_ms = 1e3 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  CHECK(busy_ms < 10);
}

#if !defined(LATHE_TSAN)  // TSan does not follow threads that start after a fork
TEST_CASE("thread pool: works in the child of a fork") {
  const ThreadCount count(2);
  chunks_of(100, 1);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bool ok = num_threads() == 2;
    for (int round = 0; round < 10; ++round) ok = ok && chunks_of(100, 1).size() == 100;
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
#endif

TEST_CASE("thread pool: goes on with the threads that there are, and says so once") {
  std::vector<std::string> warnings;
  const LogHandler before =
      set_log_handler([&](LogLevel, std::string_view text) { warnings.emplace_back(text); });
  {
    const ThreadCount count(4);
    const ArmedFault one_worker(thread_fault(), 2, FaultPoint::kForever);
    for (int i = 0; i < 3; ++i) CHECK(chunks_of(100, 1).size() == 100);
    CHECK(thread_fault().calls() == 2);
  }
  set_log_handler(before);
  REQUIRE(warnings.size() == 1);
  CHECK(
      warnings[0].starts_with("loops run on 2 of 4 threads: thread pool: no thread can be started: "
                              "Resource temporarily unavailable"));
}

TEST_CASE("usable_cpus: at least one, and the first thread count") { CHECK(usable_cpus() >= 1); }

}  // namespace
}  // namespace lathe
