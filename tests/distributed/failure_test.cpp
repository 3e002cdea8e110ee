// A rank that ends, stops, hangs, disagrees or cannot join: what all others are told, and when.
#include <doctest/doctest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "lathe/core/format.h"
#include "lathe/core/seconds_since.h"
#include "lathe/distributed/process_group.h"
#include "lathe/ops/creation.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;
using lathe::test::Ranks;

namespace {

constexpr double kTimeout = 4;  // of a rank that is silent; the rest is told at once

void reduce_once(ProcessGroup& group) { group.all_reduce_(zeros({1000})).wait(); }

/// Calls until the group fails.
std::string reduce_for_ever(ProcessGroup& group) {
  while (true) reduce_once(group);
}

/// Lets the others join first: who comes after a refusal finds nobody.
void come_late() { std::this_thread::sleep_for(std::chrono::seconds(2)); }

/// What ranks 0 to n-1 are told, apart from `odd`.
void check_told(Ranks& ranks, int n, int odd, const std::string& expected) {
  for (int rank = 0; rank < n; ++rank) {
    if (rank == odd) continue;
    const std::string result = ranks.result(rank);
    INFO("rank ", rank, ": ", result);
    CHECK(result.find(expected) != std::string::npos);
    CHECK(result.find('\n') == std::string::npos);
  }
}

/// How many files are open and threads run in this process.
std::string open_things() {
  const auto count = [](const char* folder) {
    return std::ranges::distance(std::filesystem::directory_iterator(folder),
                                 std::filesystem::directory_iterator());
  };
  return concat(count("/proc/self/fd"), " files, ", count("/proc/self/task"), " threads");
}

}  // namespace

TEST_CASE("a group that failed gives back its connections and threads") {
  Ranks ranks(2, 60, [](const GroupOptions& options) -> std::string {
    const std::string before = open_things();
    std::string told;
    try {
      ProcessGroup group(options);
      reduce_once(group);
      if (options.rank == 1) group.abort("no more");
      reduce_for_ever(group);
    } catch (const DistributedError& error) {
      told = error.message();
    }
    const std::string after = open_things();
    return after == before ? told : concat(before, " before, ", after, " after");
  });
  check_told(ranks, 2, -1, "failed: no more");
}

TEST_CASE("a rank that ends is named at once, with the reason if it gave one") {
  for (const int odd : {0, 2}) {
    Ranks killed(3, 60, [odd](const GroupOptions& options) {
      ProcessGroup group(options);
      reduce_once(group);
      if (options.rank == odd) raise(SIGKILL);
      return reduce_for_ever(group);
    });
    Ranks threw(3, 60, [odd](const GroupOptions& options) {
      ProcessGroup group(options);
      reduce_once(group);
      if (options.rank == odd) throw std::runtime_error("no more");
      return reduce_for_ever(group);
    });
    Ranks aborted(3, 60, [odd](const GroupOptions& options) {
      ProcessGroup group(options);
      reduce_once(group);
      if (options.rank == odd) group.abort("the disk is full");
      return reduce_for_ever(group);
    });
    Ranks left(3, 60, [odd](const GroupOptions& options) -> std::string {
      ProcessGroup group(options);
      reduce_once(group);
      if (options.rank == odd) return "left";
      return reduce_for_ever(group);
    });
    const std::string name = concat("rank ", odd, " (");
    check_told(killed, 3, odd, "ended without a word");
    check_told(killed, 3, odd, name);
    check_told(threw, 3, odd, "failed: it left because of an exception");
    check_told(threw, 3, odd, name);
    check_told(aborted, 3, -1, "failed: the disk is full");
    check_told(left, 3, odd, "has left the group");
    CHECK(left.result(odd) == "left");
  }
}

TEST_CASE(
    "a rank that is stopped, computes for ever, calls something else or is missing is named in "
    "time") {
  const auto begin = std::chrono::steady_clock::now();
  const auto stop = [](int odd) {
    return [odd](const GroupOptions& options) {
      ProcessGroup group(options);
      reduce_once(group);
      if (options.rank == odd) raise(SIGSTOP);
      return reduce_for_ever(group);
    };
  };
  Ranks stopped(3, kTimeout, stop(2)), stopped_0(3, kTimeout, stop(0));
  Ranks computes(3, kTimeout, [](const GroupOptions& options) {
    ProcessGroup group(options);
    reduce_once(group);
    if (options.rank == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
    return reduce_for_ever(group);
  });
  const auto disagree = [](bool debug) {
    return [debug](GroupOptions options) -> std::string {
      options.debug = debug;
      ProcessGroup group(options);
      reduce_once(group);
      group.all_reduce_(zeros({options.rank == 1 ? 3 : 4})).wait();
      group.barrier().wait();
      return "no error";
    };
  };
  Ranks compared(3, 60, disagree(true)), not_compared(3, kTimeout, disagree(false));
  Ranks missing(3, kTimeout, [](const GroupOptions& options) -> std::string {
    if (options.rank == 1) return "missing";
    ProcessGroup group(options);
    return "joined";
  });
  check_told(stopped, 3, 2, "rank 2 (");
  check_told(stopped, 3, 2, "is stopped, or its machine cannot be reached");
  check_told(stopped_0, 3, 0, "rank 0 (");
  check_told(stopped_0, 3, 0, "is stopped, or its machine cannot be reached");
  check_told(computes, 3, 1, "rank 1 (");
  check_told(computes, 3, 1, "has made 1 calls and computes, while rank");
  check_told(compared, 3, -1, "called all_reduce_(sum) f32[3], and others all_reduce_(sum) f32[4]");
  check_told(not_compared, 3, -1,
             "called all_reduce_(sum) f32[3], and others all_reduce_(sum) f32[4]");
  check_told(missing, 3, 1, "rank 1 has not joined within 3.6 s");
  CHECK(seconds_since(begin) < 3 * kTimeout);
}

TEST_CASE("who does not belong to the job does not join") {
  Ranks stranger(3, kTimeout, [](GroupOptions options) -> std::string {
    if (options.rank == 2) options.token = "wrong";
    ProcessGroup group(options);
    return "joined";
  });
  Ranks other_world(3, 60, [](GroupOptions options) -> std::string {
    if (options.rank == 2) {
      come_late();
      options.world_size = 4;
    }
    ProcessGroup group(options);
    return "joined";
  });
  Ranks twice(3, 60, [](GroupOptions options) -> std::string {
    if (options.rank == 2) {
      come_late();
      options.rank = 1;
    }
    ProcessGroup group(options);
    return "joined";
  });
  check_told(stranger, 3, 2, "rank 2 has not joined within 3.6 s; a process at 127.0.0.1:");
  check_told(stranger, 3, 2, "called itself rank 2 was refused, because its job token is another");
  INFO(stranger.result(2));
  CHECK(stranger.result(2).find("refused rank 2, because its job token is another") !=
        std::string::npos);
  check_told(other_world, 3, -1, "was started for 4 ranks, rank 0 for 3");
  check_told(twice, 3, -1, "rank 1 was started twice: as process");
}

TEST_CASE("a place where ranks cannot meet is named") {
  GroupOptions options;
  options.world_size = 2;
  options.timeout_seconds = 0.3;
  options.rendezvous = "tcp://203.0.113.1:29500";  // of no machine (RFC 5737)
  CHECK_THROWS_WITH_AS(
      ProcessGroup{options},
      doctest::Contains(
          "rank 0 cannot listen on 203.0.113.1:29500: it is no address of this machine"),
      DistributedError);
  options.rank = 1;
  options.rendezvous = "file:///nowhere/place";
  CHECK_THROWS_WITH_AS(
      ProcessGroup{options},
      doctest::Contains("rank 0 was not found at file:///nowhere/place within 0.3 s"),
      DistributedError);
}
