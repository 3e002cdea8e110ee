// A rank that ends, stops, hangs, disagrees or cannot join: what all others are told, and when.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "lathe/core/format.h"
#include "lathe/core/log.h"
#include "lathe/distributed/control.h"
#include "lathe/distributed/process_group.h"
#include "lathe/distributed/socket.h"
#include "lathe/ops/creation.h"
#include "lathe/tests/data/files.h"
#include "patience.h"
#include "ranks.h"

using namespace lathe;
using namespace lathe::distributed;
using namespace lathe::test;

namespace {

constexpr double kTimeout = 1.5;  // times the patience (patience.h)

/// And reads the sum, as training reads a loss.
void reduce_once(ProcessGroup& group) {
  const Tensor t = zeros({1000}, {.device = device()});
  group.all_reduce_(t).wait();
  t.to(kCPU);
}

/// Calls until the group fails.
std::string reduce_for_ever(ProcessGroup& group) {
  while (true) reduce_once(group);
}

/// Lets the others join first: who comes after a refusal finds nobody.
void come_late(double factor) {
  std::this_thread::sleep_for(std::chrono::duration<double>(0.3 * factor));
}

/// What is wrong with what ranks 0 to n-1 are told, apart from `odd`.
std::string not_told(Ranks& ranks, int n, int odd, const std::string& expected) {
  std::string wrong;
  for (int rank = 0; rank < n; ++rank) {
    if (rank == odd) continue;
    const std::string result = ranks.result(rank);
    const std::string why = unless_contained(result, expected);
    if (!why.empty()) wrong += concat("rank ", rank, ": ", why);
    if (result.find('\n') != std::string::npos) wrong += concat("rank ", rank, ": two lines; ");
  }
  return wrong;
}

std::string join_limit(double timeout) {
  GroupOptions options;
  options.timeout_seconds = timeout;
  return seconds_text(Limits(options).join);
}

/// How many files are open and threads run in this process.
std::string open_things() {
  const auto count = [](const char* folder) {
    return std::ranges::distance(std::filesystem::directory_iterator(folder),
                                 std::filesystem::directory_iterator());
  };
  return concat(count("/proc/self/fd"), " files, ", count("/proc/self/task"), " threads");
}

/// Joins, makes a call, does `what` if it is rank `odd`, and calls until the group fails.
Ranks::Body fails_in(int odd, const std::function<std::string(ProcessGroup& group)>& what) {
  return [=](const GroupOptions& options) {
    ProcessGroup group(options);
    reduce_once(group);
    if (options.rank == odd) {
      const std::string result = what(group);
      if (!result.empty()) return result;
    }
    return reduce_for_ever(group);
  };
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
  CHECK(not_told(ranks, 2, -1, "failed: no more") == "");
}

TEST_CASE("a rank that ends is named at once, with the reason if it gave one") {
  with_patience([](double factor) {
    const double timeout = kTimeout * factor;
    std::string wrong;
    std::vector<std::unique_ptr<Ranks>> all;  // at the same time: most of this is waiting
    for (const int odd : {0, 2}) {
      const auto start = [&](const std::function<std::string(ProcessGroup&)>& what) {
        all.push_back(std::make_unique<Ranks>(3, timeout, fails_in(odd, what)));
      };
      start([](ProcessGroup&) {
        raise(SIGKILL);
        return "";
      });
      start([](ProcessGroup&) -> std::string { throw std::runtime_error("no more"); });
      start([](ProcessGroup& group) {
        group.abort("the disk is full");
        return "";
      });
      start([](ProcessGroup&) { return "left"; });
    }
    for (const int odd : {0, 2}) {
      Ranks &killed = *all[odd == 0 ? 0 : 4], &threw = *all[odd == 0 ? 1 : 5],
            &aborted = *all[odd == 0 ? 2 : 6], &left = *all[odd == 0 ? 3 : 7];
      const std::string name = concat("rank ", odd, " (");
      wrong += not_told(killed, 3, odd, "ended without a word");
      wrong += not_told(killed, 3, odd, name);
      wrong += not_told(threw, 3, odd, "failed: it left because of an exception");
      wrong += not_told(threw, 3, odd, name);
      wrong += not_told(aborted, 3, -1, "failed: the disk is full");
      wrong += not_told(left, 3, odd, "has left the group");
      wrong += unless_contained(left.result(odd), "left");
    }
    return wrong;
  });
}

TEST_CASE("a rank that ends while another one sends to it is named at once") {
  const auto began = std::chrono::steady_clock::now();
  Ranks ranks(2, 60, [](const GroupOptions& options) -> std::string {
    ProcessGroup group(options);
    const Tensor t = zeros({1 << 23});
    if (options.rank == 1) {
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        raise(SIGKILL);
      }).detach();
    }
    while (true) group.broadcast_(t).wait();
  });
  CHECK(not_told(ranks, 2, 1, "ended without a word") == "");
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(30));  // the call has 45
}

TEST_CASE(
    "a rank that is stopped, computes for ever, calls something else or is missing is named in "
    "time") {
  with_patience([](double factor) {
    const double timeout = kTimeout * factor;
    const auto stop = [](ProcessGroup&) {
      raise(SIGSTOP);
      return "";
    };
    Ranks stopped(3, timeout, fails_in(2, stop)), stopped_0(3, timeout, fails_in(0, stop));
    Ranks computes(3, timeout, fails_in(1, [](ProcessGroup&) {
                     std::this_thread::sleep_for(std::chrono::seconds(100));
                     return "";
                   }));
    const auto disagree = [](bool debug) {
      return [debug](GroupOptions options) -> std::string {
        options.debug = debug;
        ProcessGroup group(options);
        reduce_once(group);
        const Tensor t = zeros({options.rank == 1 ? 3 : 4}, {.device = device()}),
                     next = zeros({2}, {.device = device()});
        Work odd = group.all_reduce_(t);
        for (int i = 0; i < 100 && !debug; ++i)
          group.all_reduce_(next);  // far ahead of the failure
        odd.wait();
        group.barrier().wait();
        return "no error";
      };
    };
    Ranks compared(3, timeout, disagree(true)), not_compared(3, timeout, disagree(false));
    Ranks missing(3, timeout, [](const GroupOptions& options) -> std::string {
      if (options.rank == 1) return "missing";
      ProcessGroup group(options);
      return "joined";
    });
    const std::string called = concat("called all_reduce_(sum) f32[3]", where(),
                                      ", and others all_reduce_(sum) f32[4]", where());
    const int made = on_gpus() ? 4 : 1;  // three to connect the GPUs
    std::string wrong = not_told(stopped, 3, 2, "rank 2 (");
    wrong += not_told(stopped, 3, 2, "is stopped, or its machine cannot be reached");
    wrong += not_told(stopped_0, 3, 0, "rank 0 (");
    wrong += not_told(stopped_0, 3, 0, "is stopped, or its machine cannot be reached");
    wrong += not_told(computes, 3, 1, "rank 1 (");
    wrong += not_told(computes, 3, 1, concat("has made ", made, " calls and computes, while rank"));
    wrong += not_told(compared, 3, -1, called);
    wrong += not_told(not_compared, 3, -1, called);
    return wrong + not_told(missing, 3, 1, "rank 1 has not joined within " + join_limit(timeout));
  });
}

TEST_CASE("who does not belong to the job does not join") {
  with_patience([](double factor) {
    const double timeout = kTimeout * factor;
    Ranks stranger(3, timeout, [](GroupOptions options) -> std::string {
      if (options.rank == 2) options.token = "wrong";
      ProcessGroup group(options);
      return "joined";
    });
    const auto late = [&](const std::function<void(GroupOptions&)>& change) {
      return [change, factor](GroupOptions options) -> std::string {
        if (options.rank == 2) {
          come_late(factor);
          change(options);
        }
        ProcessGroup group(options);
        return "joined";
      };
    };
    Ranks other_world(3, timeout, late([](GroupOptions& options) { options.world_size = 4; }));
    Ranks twice(3, timeout, late([](GroupOptions& options) { options.rank = 1; }));
    std::string wrong = not_told(
        stranger, 3, 2,
        "rank 2 has not joined within " + join_limit(timeout) + "; a process at 127.0.0.1:");
    wrong += not_told(stranger, 3, 2,
                      "called itself rank 2 was refused, because it does not know the job token");
    wrong += unless_contained(stranger.result(2),
                              "refused rank 2, because it does not know the job token");
    wrong += not_told(other_world, 3, -1, "was started for 4 ranks, rank 0 for 3");
    return wrong + not_told(twice, 3, -1, "rank 1 was started twice: as process");
  });
}

TEST_CASE("a call that fails writes no more once its wait has ended") {
  // Rank 1 ends the group when it sees that a part of the sum has been written. Should the call be
  // over before that takes effect, another group is tried.
  const std::string over = "the call was over";
  const auto body = [over](const GroupOptions& options) -> std::string {
    ProcessGroup group(options);
    reduce_once(group);
    constexpr int64_t kSize = int64_t{1} << 22, kApart = 1024;
    const Tensor t = ones({kSize}, {.dtype = kF16});  // adding halves takes long
    const auto sample = [&] {                         // quickly: only every 1024th
      std::vector<uint16_t> out;
      const auto* const bits = static_cast<const volatile uint16_t*>(t.raw_data());
      for (int64_t i = 0; i < kSize; i += kApart) out.push_back(uint16_t{bits[i]});
      return out;
    };
    const std::vector<uint16_t> first = sample();
    Work call = group.all_reduce_(t);
    if (options.rank == 1) {
      while (sample() == first && !call.done()) {
      }
      group.abort("no more");
    }
    std::string told;
    try {
      call.wait();
      if (options.rank == 1) return over;
      reduce_for_ever(group);
    } catch (const DistributedError& error) {
      told = error.message();
    }
    const std::vector<uint16_t> before = sample();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return sample() == before ? told : "written after wait()";
  };
  for (int attempt = 0; attempt < 20; ++attempt) {
    Ranks ranks(2, 60, body);
    if (ranks.result(1) == over) continue;
    CHECK(not_told(ranks, 2, -1, "failed: no more") == "");
    return;
  }
  FAIL("no call was cut short");
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
      doctest::Contains(
          "rank 0 was not found at file:///nowhere/place within 0.3 s: rank 0 has not "
          "written its address there"),
      DistributedError);
  const data::testing::TempDir folder;
  const auto rank_1_at = [&](const std::filesystem::path& place) {
    options.rendezvous = "file://" + place.string();
    return data::testing::message_of<Error>([&] { ProcessGroup{options}; });
  };
  // An endless device, and a pipe without a writer, are no place to meet.
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const std::string& place :
       {std::string("/dev/zero"), (folder / "pipe").string(), std::string("/tmp")}) {
    CHECK(rank_1_at(place) ==
          concat("process group: rendezvous: ", place, " is not a regular file"));
  }
  // Files that rank 0 has not written.
  data::testing::write_file(folder / "empty", "");
  CHECK(rank_1_at(folder / "empty").ends_with("rank 0 has not written its address there"));
  data::testing::write_file(folder / "long", std::string(size_t{1} << 20, '7'));
  CHECK(rank_1_at(folder / "long")
            .ends_with("it holds \"" + std::string(60, '7') + "\" instead of HOST:PORT"));
  // A file that cannot be read is not one that is not there.
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(rank_1_at(folder / "loop").ends_with("within 0.3 s: Too many levels of symbolic links"));
  // A process that is stopped: the kernel answers for it, and it says nothing.
  const Descriptor listener = listen_on({"127.0.0.1", 0});
  options.rendezvous = concat("tcp://127.0.0.1:", local_end(listener.get()).port);
  CHECK_THROWS_WITH_AS(ProcessGroup{options},
                       doctest::Contains("within 0.3 s: a process listens there but does not "
                                         "answer: it is stopped, or is no Lathe"),
                       DistributedError);
}

TEST_CASE("rank 0 warns where strangers can reach it and no token keeps them out") {
  GroupOptions options;
  options.world_size = 2;
  options.timeout_seconds = 0.2;
  const auto warnings_at = [&](const char* host, const char* token) {
    options.token = token;
    const int port = local_end(listen_on({"127.0.0.1", 0}).get()).port;
    options.rendezvous = concat("tcp://", host, ":", port);
    std::string text;
    const LogHandler before =
        set_log_handler([&](LogLevel, std::string_view line) { text += line; });
    CHECK_THROWS_AS(ProcessGroup{options}, DistributedError);  // rank 1 does not come
    set_log_handler(before);
    return text;
  };
  CHECK(warnings_at("0.0.0.0", "").find("without a job token") != std::string::npos);
  CHECK(warnings_at("0.0.0.0", "secret") == "");
  CHECK(warnings_at("127.0.0.1", "") == "");
}
