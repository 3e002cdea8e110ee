// The profiler on a GPU: times by events, and what it must leave alone.
#include "../cuda_case.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/lathe.h"
#include "lathe/tests/profile/recorded.h"

using namespace lathe;
using profile::all_named;
using profile::Profiler;
using profile::Record;

namespace {

const Device kGpu(DeviceType::kCUDA);

}  // namespace

TEST_CASE("profiler on a GPU: ops have a time there, inside that of the range around them" *
          test::cuda_case()) {
  const Tensor x = ones({64, 64}, {.device = kGpu}).requires_grad_();
  Profiler profiler({.profile_memory = true});
  Tensor y;
  {
    const profile::Range range("forward");
    y = sum(matmul(x, x));
  }
  y.backward();
  profiler.stop();
  const profile::Averages rows = profiler.key_averages();
  for (const char* const name : {"matmul", "sum", "matmul backward"})
    CHECK_MESSAGE(rows.find(name)->device_total_ns > 0, name);
  CHECK(rows.find("forward")->device_total_ns >=
        rows.find("sum")->device_total_ns + rows.find("forward")->self_device_ns);
  CHECK(rows.table().find("Self CUDA") != std::string::npos);
  CHECK(all_named(profiler.recording(), "matmul").at(0).memory.device >= 64 * 64 * 4);
}

TEST_CASE("profiler on a GPU: copies and waits are ranges of their own kinds" * test::cuda_case()) {
  const Tensor x = ones({4});
  Profiler profiler;
  const Tensor on_gpu = x.to(kGpu);
  CHECK(sum(on_gpu).item<float>() == 4);
  cuda::synchronize(kGpu);
  profiler.stop();
  const auto kind_of = [&](const char* name) {
    return all_named(profiler.recording(), name).at(0).kind;
  };
  CHECK(kind_of("copy host to GPU") == profile::Kind::kCopy);
  CHECK(kind_of("copy GPU to host") == profile::Kind::kCopy);
  CHECK(kind_of("item") == profile::Kind::kSync);
  CHECK(kind_of("synchronize device") == profile::Kind::kSync);
  CHECK(all_named(profiler.recording(), "copy host to GPU").at(0).bytes == 32);
}

TEST_CASE("profiler on a GPU: a step is not waited for, and launches nothing more" *
          test::cuda_case()) {
  const Tensor x = ones({16}, {.device = kGpu});
  const auto work = [&] { mul(add(x, x), x); };
  const auto counted = [&] {
    const cuda::Counters before = cuda::counters();
    work();
    const cuda::Counters after = cuda::counters();
    return std::pair(after.launches - before.launches,
                     after.synchronizations - before.synchronizations);
  };
  counted();
  const auto off = counted();
  Profiler profiler;
  CHECK(counted() == off);
  profiler.stop();
  CHECK(counted() == off);
}

TEST_CASE("profiler on a GPU: a graph can be captured and launched meanwhile" * test::cuda_case()) {
  const Tensor x = full({3}, 2.0, {.device = kGpu}), sum = zeros({3}, {.device = kGpu});
  Profiler profiler;
  mul(x, x);  // the clock of the GPU is known before
  cuda::Graph graph(kGpu);
  graph.capture([&] { sum.add_(mul(x, 10.0)); });
  graph.launch();
  graph.launch();
  CHECK(sum.to(kCPU).to_vector<float>() == std::vector<float>{40, 40, 40});
  profiler.stop();
  const std::vector<Record> muls = all_named(profiler.recording(), "mul");
  REQUIRE(muls.size() == 2);
  CHECK(muls[0].device_ns >= 0);
  CHECK(muls[1].device_ns == -1);  // inside the capture nothing runs
  const std::vector<Record> launches = all_named(profiler.recording(), "CUDA graph launch");
  CHECK(launches.size() == 2);
  CHECK(launches[0].device_ns >= 0);
}

TEST_CASE("profiler on a GPU: a wrong label is still the program's error" * test::cuda_case()) {
  const Tensor weight = ones({4, 2}, {.device = kGpu}), wrong = tensor({7}).to(kGpu);
  Profiler profiler;
  index_select(weight, 0, wrong);
  profiler.stop();  // waits, and leaves the error alone
  CHECK_THROWS_AS(cuda::synchronize(kGpu), IndexError);
}
