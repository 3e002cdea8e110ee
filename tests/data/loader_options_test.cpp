// What a loader does beside delivering batches: threads that stay, timeouts, their own set-up,
// batches of any type, statistics, a fork.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>

#include "files.h"
#include "lathe/core/log.h"
#include "lathe/core/start_thread.h"
#include "lathe/core/thread_pool.h"
#include "lathe/data/collate_loader.h"
#include "lathe/data/data_loader.h"
#include "lathe/ops/creation.h"

namespace lathe::data {
namespace {

using testing::message_of;

/// Numbers; notes which threads read them, and waits for `gate` at one of them.
struct Numbers : Dataset {
  explicit Numbers(int64_t size) : n(size) {}
  int64_t size() const override { return n; }
  SampleSpec spec() const override { return {{{"x", {}, kI64}}}; }
  void read(int64_t i, Key, Slot out) const override {
    {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
      ++reads;
    }
    if (i == waits_at) gate.wait();
    out.set<int64_t>(0, i);
  }
  int64_t n;
  std::atomic<int64_t> waits_at = -1;  // set while a worker that was left behind may read it
  std::shared_future<void> gate;
  mutable std::mutex mutex;
  mutable std::set<std::thread::id> threads;
  mutable std::atomic<int> reads = 0;
};

/// Seconds after which a worker counts as hanging; one that does not must be done by then, on a
/// busy machine too.
constexpr double kTimeout = 2;

int64_t sum_of_epoch(DataLoader& loader) {
  int64_t sum = 0;
  for (auto& batch : loader) sum += batch.x.to_vector<int64_t>()[0];
  return sum;
}

TEST_CASE("loader: a request to stop ends the pass within the batch that is being read") {
  for (const int64_t workers : {0, 1, 3}) {
    CAPTURE(workers);
    const Numbers set(1000);
    std::atomic<int> stop_from = 250;
    DataLoader loader(
        set, {.batch_size = 100, .num_workers = workers, .prefetch_factor = 1, .stop = [&] {
                return set.reads >= stop_from;
              }});
    int64_t batches = 0;
    for (auto& batch : loader) {
      CHECK(batch.x.to_vector<int64_t>()[0] == 100 * batches);
      ++batches;
    }
    CHECK(batches <= 2);  // those that were read in full
    CHECK(set.reads <
          stop_from + std::max<int64_t>(workers, 1));  // and no sample after the request
    CHECK(loader.state_dict().count("epoch") == 0);
    CHECK(loader.state_dict().count("batch") == batches);
    stop_from = 1 << 20;
    loader.load_state_dict(loader.state_dict());
    for (auto& batch : loader) {
      CHECK(batch.x.to_vector<int64_t>()[0] == 100 * batches);
      ++batches;
    }
    CHECK(batches == 10);
  }
}

TEST_CASE("loader: persistent workers are the same threads in every epoch, others are not") {
  for (const bool persistent : {true, false}) {
    CAPTURE(persistent);
    const Numbers set(8);
    std::atomic<int> started = 0;
    {
      DataLoader loader(set, {.num_workers = 2,
                              .worker_init_fn = [&](int64_t) { ++started; },
                              .persistent_workers = persistent});
      for (int epoch = 0; epoch < 5; ++epoch) CHECK(sum_of_epoch(loader) == 28);
      auto left_early = loader.begin();
      ++left_early;
    }
    CHECK(set.threads.size() <= (persistent ? 2 : 12));
    CHECK(started == (persistent ? 2 : 12));
  }
}

TEST_CASE("loader: two passes at once each have their threads, though these stay") {
  const Numbers set(6);
  DataLoader loader(set, {.num_workers = 1, .persistent_workers = true});
  auto a = loader.begin(), b = loader.begin();
  int64_t sum = 0;
  for (; a != loader.end() && b != loader.end(); ++a, ++b)
    sum += a->x.to_vector<int64_t>()[0] + b->x.to_vector<int64_t>()[0];
  CHECK(sum == 30);
  CHECK(set.threads.size() == 2);
  DataLoader copy = loader;  // may use the threads that stay
  CHECK(sum_of_epoch(loader) == 15);
  CHECK(sum_of_epoch(copy) == 15);
}

TEST_CASE("loader: worker_init_fn is called with each worker's number, in its thread") {
  std::mutex mutex;
  std::set<int64_t> workers;
  std::set<std::thread::id> threads;
  const Numbers set(100);
  DataLoader loader(set, {.num_workers = 3, .worker_init_fn = [&](int64_t worker) {
                            const std::lock_guard lock(mutex);
                            workers.insert(worker);
                            threads.insert(std::this_thread::get_id());
                          }});
  CHECK(sum_of_epoch(loader) == 4950);
  CHECK(workers == std::set<int64_t>{0, 1, 2});
  CHECK(threads.size() == 3);
  CHECK(!threads.contains(std::this_thread::get_id()));
}

TEST_CASE("loader: what worker_init_fn throws reaches the caller, and ends the pass") {
  const Numbers set(100);
  bool broken = true;
  DataLoader loader(set, {.num_workers = 2, .worker_init_fn = [&](int64_t worker) {
                            if (broken && worker == 1) throw std::runtime_error("no licence");
                          }});
  const auto read_all = [&] {
    for (auto& batch : loader) CHECK(batch.size() == 1);
  };
  for (int k = 0; k < 20; ++k) {  // at the first batch, however far another worker is
    CHECK_THROWS_WITH_AS(loader.begin(), "no licence", std::runtime_error);
  }
  CHECK_THROWS_WITH_AS(read_all(), "no licence", std::runtime_error);
  broken = false;
  CHECK(sum_of_epoch(loader) == 4950);
}

TEST_CASE("loader: a thread that stays is set up before it reads, though its set-up failed once") {
  const Numbers set(30);
  std::atomic<int> calls = 0;
  DataLoader loader(set, {.num_workers = 1,
                          .worker_init_fn =
                              [&](int64_t) {
                                if (++calls == 1) throw 1;
                              },
                          .persistent_workers = true});
  CHECK_THROWS_AS(loader.begin(), int);
  CHECK(set.reads == 0);
  CHECK(sum_of_epoch(loader) == 435);
  CHECK(sum_of_epoch(loader) == 435);
  CHECK(calls == 2);
}

TEST_CASE("loader: a batch that does not come is an error after the timeout, and nothing hangs") {
  std::promise<void> open;
  {
    const auto set = std::make_shared<Numbers>(20);
    set->waits_at = 7;
    set->gate = open.get_future().share();
    DataLoader loader(
        set, {.batch_size = 2, .num_workers = 2, .timeout = kTimeout, .persistent_workers = true});
    int64_t batches = 0;
    CHECK(message_of<DataError>([&] {
            for (auto& batch : loader) batches += batch.size() / 2;
          }) ==
          "DataLoader: batch 3 (samples 6, 7) was not ready within the timeout of 2 s; "
          "the loader gives its worker threads up");
    CHECK(batches == 3);
    set->waits_at = -1;  // other threads serve the next epoch, while one still waits
    int64_t sum = 0;
    for (auto& batch : loader) sum += batch.x.sum().item<int64_t>();
    CHECK(sum == 190);
  }
  open.set_value();
}

TEST_CASE("loader: with a timeout, neither an error nor leaving waits for a worker that hangs") {
  std::promise<void> open;
  const std::shared_future<void> gate = open.get_future().share();
  const auto make = [&](int64_t throws_at) {
    return std::make_shared<FunctionDataset>(from_function(8, [=](int64_t i) {
      if (i == 2) gate.wait();
      if (i == throws_at) throw std::runtime_error("bad");
      return Example(full({}, 1.0), i);
    }));
  };
  for (const int64_t throws_at : {int64_t{1}, int64_t{-1}}) {
    DataLoader loader(make(throws_at), {.num_workers = 2, .timeout = kTimeout});
    auto it = loader.begin();
    if (throws_at == 1) CHECK_THROWS_AS(++it, DataError);
  }
  open.set_value();
}

TEST_CASE("loader: an abandoned pass ends the reading at the next sample") {
  std::promise<void> open;
  Numbers set(1000);
  set.waits_at = 3;
  set.gate = open.get_future().share();
  DataLoader loader(set, {.batch_size = 1000, .num_workers = 1});
  std::thread opener;
  {
    loader.set_epoch(0, 1);  // nothing to read
    CHECK(loader.begin() == loader.end());
    DataLoader one(set, {.batch_size = 3, .num_workers = 1});
    auto it = one.begin();  // the worker goes on to samples 3, 4, 5
    opener = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      open.set_value();
    });
  }
  opener.join();
  CHECK(set.threads.size() == 1);
}

TEST_CASE("loader: num_workers auto is one for each processor but one, 1 to 16") {
  const Numbers set(4);
  const DataLoader loader(set, {.num_workers = kAutoWorkers});
  CHECK(loader.options().num_workers == std::clamp(usable_cpus() - 1, 1, 16));
}

struct Pairs : BatchSampler {
  int64_t size() const override { return 2; }
  std::vector<std::vector<int64_t>> batches(uint64_t, int64_t epoch) const override {
    if (epoch == 3) return {{0}, {}};
    if (epoch == 4) return {{0}, {11}};
    return {{epoch, 9}, {5, 5, 1}};
  }
};

TEST_CASE("loader: a batch sampler says which samples make a batch") {
  const Numbers set(10);
  for (const int64_t workers : {0, 2}) {
    DataLoader loader(set, {.num_workers = workers, .batch_sampler = std::make_shared<Pairs>()});
    CHECK(loader.size() == 2);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<std::vector<int64_t>> seen;
      for (auto& batch : loader) seen.push_back(batch.x.to_vector<int64_t>());
      CHECK(seen == Pairs().batches(0, epoch));
    }
    CHECK(message_of<ValueError>([&] { loader.begin(); }) ==
          "DataLoader: batch 1 of the batch sampler is empty");
    loader.set_epoch(4);
    CHECK(message_of<IndexError>([&] { loader.begin(); }) ==
          "DataLoader: the sampler gave index 11 of a data set of 10 samples");
  }
  CHECK_THROWS_AS(DataLoader(set, {.batch_size = 4, .batch_sampler = std::make_shared<Pairs>()}),
                  ValueError);
  CHECK_THROWS_AS(DataLoader(set, {.timeout = -1}), ValueError);
}

TEST_CASE("loader: statistics count batches, the caller's waiting and what lay ready") {
  const Numbers set(40);
  DataLoader quick(set, {.num_workers = 1, .prefetch_factor = 4});
  int taken = 0;
  for (auto& batch : quick) {
    CHECK(batch.size() == 1);
    // Until the worker reads as far ahead as it may: three batches are ready then, and one nearly.
    ++taken;
    while (set.reads < std::min(40, taken + 4)) std::this_thread::yield();
  }
  CHECK(quick.stats().batches == 40);
  CHECK(quick.stats().mean_ready > 2.5);  // 0 for the first, 3 or 4, and less for the last four
  CHECK(quick.stats().mean_ready <= 4);
  quick.reset_stats();
  CHECK(quick.stats().batches == 0);

  std::promise<void> open;
  Numbers slow(2);
  slow.waits_at = 1;
  slow.gate = open.get_future().share();
  for (const int64_t workers : {0, 1}) {
    CAPTURE(workers);
    DataLoader loader(slow, {.num_workers = workers});
    auto it = loader.begin();
    std::thread opener([&, workers] {
      if (workers != 0) return;
      while (slow.reads < 2) std::this_thread::yield();  // the caller is at the gate
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      open.set_value();
    });
    ++it;
    opener.join();
    CHECK(loader.stats().batches == 2);
    if (workers == 0) CHECK(loader.stats().wait_seconds >= 0.03);
  }
}

TEST_CASE("collate_loader: batches of any type, the same for any number of workers") {
  const std::vector<std::string> words = {"a", "bcd", "ef", "", "ghijk", "l", "mn"};
  std::set<std::string> results;
  for (const int64_t workers : {0, 1, 3}) {
    auto loader = collate_loader(
        static_cast<int64_t>(words.size()),
        [&](int64_t i, Key key) {
          return words[static_cast<size_t>(i)] + std::to_string(key.random().below(10));
        },
        [](std::vector<std::string> some) { return some; },
        {.batch_size = 3, .shuffle = true, .num_workers = workers, .seed = 5});
    CHECK(loader.size() == 3);
    std::string text;
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const std::vector<std::string>& batch : loader)
        text += std::accumulate(batch.begin(), batch.end(), std::string("|"));
    CHECK(text.size() == 2 * (3 + 7 + 14));
    results.insert(text);
  }
  CHECK(results.size() == 1);
}

TEST_CASE(
    "collate_loader: errors of a sample carry its index, those of collate arrive as they are") {
  for (const int64_t workers : {0, 2}) {
    auto bad_sample = collate_loader(
        10, [](int64_t i) { return i == 4 ? throw std::runtime_error("gone") : i; },
        [](std::vector<int64_t> some) { return some.size(); },
        {.batch_size = 3, .num_workers = workers});
    CHECK(message_of<DataError>([&] {
            for (const size_t size : bad_sample) CHECK(size == 3);
          }) == "sample 4: gone");
    auto bad_batch = collate_loader(
        10, [](int64_t i) { return i; },
        [](std::vector<int64_t> some) -> int { throw ValueError(concat("first is ", some[0])); },
        {.num_workers = workers});
    CHECK(message_of<ValueError>([&] { bad_batch.begin(); }) == "first is 0");
  }
}

#ifdef LATHE_TSAN
constexpr bool kForkAllowed = false;  // TSan ends a child that starts threads
#else
constexpr bool kForkAllowed = true;
#endif

/// Waits until every thread but the caller sleeps.
void wait_until_others_sleep() {
  const auto awake = [] {
    int count = -1;  // the caller
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream file(thread.path() / "stat");
      std::string stat;
      std::getline(file, stat);
      const size_t name_end = stat.rfind(')');  // after it a blank and the state
      count += name_end != std::string::npos && stat[name_end + 2] != 'S';
    }
    return count > 0;
  };
  while (awake()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_CASE("loader: reads with the workers that the system gives, and says so; none is an error") {
  const Numbers set(50);
  std::vector<std::string> warnings;
  const LogHandler before =
      set_log_handler([&](LogLevel, std::string_view text) { warnings.emplace_back(text); });
  DataLoader loader(set, {.num_workers = 3, .persistent_workers = true});
  {
    const ArmedFault third(thread_fault(), 3, FaultPoint::kForever);
    for (int epoch = 0; epoch < 2; ++epoch) CHECK(sum_of_epoch(loader) == 1225);
    CHECK(thread_fault().calls() == 3);  // the threads stay, and no more are asked for
  }
  set_log_handler(before);
  REQUIRE(warnings.size() == 1);
  CHECK(
      warnings[0].starts_with("DataLoader: only 2 of 3 workers could be started: DataLoader: "
                              "worker 2 of 3: no thread can be started: "
                              "Resource temporarily unavailable"));
  const ArmedFault all(thread_fault(), 1, FaultPoint::kForever);
  DataLoader fresh(set, {.num_workers = 2});
  CHECK(message_of<ThreadError>([&] {
          sum_of_epoch(fresh);
        }).starts_with("DataLoader: worker 0 of 2: no thread can be started: "));
}

TEST_CASE("loader: a forked child is told that it has no workers, and may begin its own" *
          doctest::skip(!kForkAllowed) *
          doctest::description("ThreadSanitizer ends a child that starts threads")) {
  const Numbers set(50);
  DataLoader loader(set, {.num_workers = 2, .persistent_workers = true});
  auto it = loader.begin();
  // A lock that a thread holds at the fork stays locked in the child: wait until all is read ahead.
  while (set.reads < 5) std::this_thread::yield();
  wait_until_others_sleep();
  const pid_t child = fork();
  if (child == 0) {
    int code = 1;
    try {
      ++it;
    } catch (const StateError&) {
      code = 0;
    }
    { const auto dropped = std::move(it); }
    DataLoader fresh(set, {.num_workers = 2});
    if (sum_of_epoch(fresh) != 1225) code = 2;
    _exit(code);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  int64_t left = 0;
  for (; it != loader.end(); ++it) ++left;
  CHECK(left == 50);
}

}  // namespace
}  // namespace lathe::data
