// key_averages: sums over hand-made ranges.
#include "lathe/profile/averages.h"

#include <doctest/doctest.h>

#include "lathe/core/error.h"

namespace lathe::profile {
namespace {

/// A range of a thread; they stand in the order in which they end.
Record range(const char* name, uint32_t depth, int64_t begin, int64_t end, Kind kind = Kind::kOp) {
  Record r;
  r.name = name;
  r.kind = kind;
  r.depth = depth;
  r.begin_ns = begin;
  r.end_ns = end;
  return r;
}

Recording one_thread(std::vector<Record> records) {
  Recording recording;
  recording.threads.push_back({1, "main", std::move(records)});
  return recording;
}

TEST_CASE("key_averages: self time is total time without inner ranges") {
  const Recording recording = one_thread({
      range("inner", 1, 10, 30),
      range("inner", 1, 40, 45),
      range("outer", 0, 0, 100),
      range("inner", 0, 200, 207),
  });
  const Averages averages(recording, {});
  const Average &outer = *averages.find("outer"), &inner = *averages.find("inner");
  CHECK(outer.calls == 1);
  CHECK(outer.cpu_total_ns == 100);
  CHECK(outer.self_cpu_ns == 75);
  CHECK(inner.calls == 3);
  CHECK(inner.cpu_total_ns == 32);
  CHECK(averages.self_cpu_ns() == 107);
  CHECK(averages.find("missing") == nullptr);
}

TEST_CASE("key_averages: a range inside one of the same name counts once in the total") {
  const Recording recording =
      one_thread({range("a", 2, 20, 30), range("b", 1, 10, 50), range("a", 0, 0, 100)});
  const Averages averages(recording, {});
  CHECK(averages.find("a")->cpu_total_ns == 100);
  CHECK(averages.find("a")->self_cpu_ns == 70);
  CHECK(averages.find("a")->calls == 2);
}

TEST_CASE("key_averages: ranges whose parent was not recorded stand alone") {
  const Recording recording =
      one_thread({range("inner", 1, 10, 30), range("later", 0, 40, 50), range("deep", 3, 60, 61)});
  const Averages averages(recording, {});
  CHECK(averages.self_cpu_ns() == 31);
}

TEST_CASE("key_averages: rows by shape") {
  Record small = range("add", 0, 0, 1), large = range("add", 0, 1, 5),
         alike = range("add", 0, 5, 7);
  small.inputs = {{kF32, {2}}};
  large.inputs = {{kF32, {4, 4}}, {kI64, {}}};
  alike.inputs = large.inputs;
  const Recording recording = one_thread({small, large, alike});
  CHECK(Averages(recording, {}).rows().size() == 1);
  const Averages by_shape(recording, {.group_by_shape = true});
  REQUIRE(by_shape.rows().size() == 2);
  CHECK(by_shape.find("add")->inputs == "f32[4,4], i64[]");
  CHECK(by_shape.find("add")->calls == 2);
}

TEST_CASE("key_averages: bytes of an op made of other ops count once") {
  Record inner = range("mul", 1, 1, 2), outer = range("loss", 0, 0, 3);
  inner.bytes = 100;
  outer.bytes = 80;
  const Averages averages(one_thread({inner, outer}), {});
  CHECK(averages.find("mul")->bytes == 100);
  CHECK(averages.find("loss")->bytes == 0);
  inner.kind = Kind::kView;
  inner.bytes = 0;
  CHECK(Averages(one_thread({inner, outer}), {}).find("loss")->bytes == 80);
}

TEST_CASE("key_averages: GPU time, of a range without its own from the ranges inside") {
  Record a = range("a", 1, 0, 10), b = range("b", 1, 10, 20), user = range("user", 0, 0, 30);
  user.kind = Kind::kUser;
  a.device_ns = 7;
  b.device_ns = 5;
  const Averages averages(one_thread({a, b, user}), {});
  CHECK(averages.find("user")->device_total_ns == 12);
  CHECK(averages.find("user")->self_device_ns == 0);
  CHECK(averages.self_device_ns() == 12);
}

TEST_CASE(
    "key_averages: kernels have rows, and their time is self time of the op that queued them") {
  Record conv = range("conv2d", 1, 0, 10), user = range("user", 0, 0, 30, Kind::kUser);
  conv.device_ns = 40;
  user.device_ns = 3;
  Recording recording = one_thread({conv, user});
  recording.has_activities = true;
  cuda::DeviceActivity kernel;
  kernel.name = "implicit_gemm";
  kernel.begin_ns = 100;
  kernel.end_ns = 120;
  recording.activities = {kernel, kernel};
  const Averages averages(recording, {});
  CHECK(averages.find("conv2d")->self_device_ns == 40);
  CHECK(averages.find("user")->self_device_ns == 3);
  CHECK(averages.find("user")->device_total_ns == 43);
  CHECK(averages.find("implicit_gemm")->device_total_ns == 40);
  CHECK(averages.find("implicit_gemm")->calls == 2);
  CHECK(averages.self_device_ns() == 43);  // each kernel once
}

TEST_CASE("sort_by_name: torch.profiler's names, and an error that lists them") {
  CHECK(sort_by_name("self_cpu_time_total") == SortBy::kSelfCpuTime);
  CHECK(sort_by_name("cuda_time_total") == SortBy::kDeviceTime);
  CHECK_THROWS_WITH_AS(sort_by_name("speed"), doctest::Contains("count, self_memory"), ValueError);
}

}  // namespace
}  // namespace lathe::profile
