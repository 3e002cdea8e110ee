// How long cuDNN's plans live, over the emulated cuDNN, which notices when one is gone before its
// work has run.
#include <functional>
#include <string>
#include <thread>

#include "../cuda_case.h"
#include "../same_memory.h"
#include "conv_keys.h"
#include "lathe/core/gpu/cudnn_retired.h"
#include "lathe/core/log.h"
#include "lathe/core/stream.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/conv_search/conv_search.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/tests/emulation/captured_stream.h"
#include "lathe/tests/emulation/cudnn_emulation.h"

using namespace lathe;
using namespace lathe::test;
using emulation::cudnn_probe;

namespace {

const Device kGpu(DeviceType::kCUDA);

struct Fixture {
  Fixture() {
    conv_search().clear();
    synchronize(current_stream(kGpu));
    lost = cudnn_probe().lost_plans;
    handler = set_log_handler([](LogLevel, std::string_view) {});
  }
  ~Fixture() {
    cudnn_probe().failing.clear();
    cudnn_probe().captured.clear();
    emulation::pretend_capture(nullptr);
    conv_search().clear();
    set_log_handler(handler);
  }
  void check_none_lost() const {
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudnn_probe().lost_plans == lost);
  }

  uint64_t lost;
  LogHandler handler;
};

/// A convolution of its own height for each case.
struct Problem {
  explicit Problem(int64_t height)
      : g(geometry_of({"", {1, 2, height, 3}, {2, 2, 3, 3}, {.pad = 1}})),
        x(same_memory_on(kGpu, rand(g.x_shape()).contiguous(kChannelsLast))),
        w(same_memory_on(kGpu, rand(g.w_shape()).contiguous(kChannelsLast))) {}
  Tensor forward() const { return cuda::conv2d_forward(g, x, w, {}); }

  Conv2dGeometry g;
  Tensor x, w;
};

void in_thread(const std::function<void()>& f) { std::thread(f).join(); }

}  // namespace

TEST_CASE("plan life: an engine is dropped while its work is queued") {
  const Fixture f;
  const Problem p(40);
  p.forward();
  cudnn_probe().failing = {3};
  p.forward();
  CHECK(cudnn_probe().last_engine() == 4);
  f.check_none_lost();
}

TEST_CASE("plan life: a thread ends while its work is queued, and waits for nothing") {
  const Fixture f;
  const Problem p(41);
  in_thread([&] {
    const OwnedStream stream(kGpu);
    const StreamScope on(stream);
    const uint64_t waits = cuda::counters().synchronizations;
    p.forward();
    CHECK(cuda::counters().synchronizations == waits);
  });
  f.check_none_lost();
}

TEST_CASE("plan life: more keys than a thread keeps") {
  const Fixture f;
  const size_t plans = cudnn_probe().plans;
  const uint64_t waits = cuda::counters().synchronizations;
  in_thread([&] {
    const Tensor w = same_memory_on(kGpu, rand({2, 2, 3, 3}));
    const Tensor x = same_memory_on(kGpu, rand({1, 2, 40, 30}));
    for (int64_t height = 1; height <= 40; ++height) {
      for (int64_t width = 1; width <= 30; ++width) {
        const Shape shape{1, 2, height, width};
        const Tensor part = alias(x, shape, contiguous_strides(shape), 0);
        cuda::conv2d_forward(geometry_of({"", shape, w.shape(), {.pad = 1}}), part, w, {});
      }
      CHECK(cudnn_probe().plans <= plans + 1024 + cudnn::kMostRetiredPlans + 1);
    }
  });
  const uint64_t waited = cuda::counters().synchronizations - waits;
  CHECK(waited >= 2);
  CHECK(waited <= 1 + 1200 / cudnn::kMostRetiredPlans);
  f.check_none_lost();
}

TEST_CASE("plan life: a captured plan stays for its graph, whatever becomes of the rest") {
  Fixture f;
  const Problem p(42);
  const Tensor y = p.forward();
  const OwnedStream stream(kGpu);
  in_thread([&] {
    const StreamScope on(stream);
    p.forward();
    emulation::pretend_capture(static_cast<cudaStream_t>(stream.get().native));
    p.forward();
    emulation::pretend_capture(nullptr);
  });
  REQUIRE(cudnn_probe().captured.size() == 1);
  for (size_t i = 0; i <= 2 * cudnn::kMostRetiredPlans; ++i) in_thread([&] { p.forward(); });
  f.check_none_lost();
  cudnn_probe().captured[0]();
  f.check_none_lost();
}

TEST_CASE("plan life: a capture loads no code, neither for a new problem nor for a new thread") {
  Fixture f;
  const Problem fresh(46), known(47);
  const Tensor y = known.forward();
  const OwnedStream stream(kGpu);
  in_thread([&] {
    const StreamScope on(stream);
    const size_t plans = cudnn_probe().plans;
    emulation::pretend_capture(static_cast<cudaStream_t>(stream.get().native));
    CHECK_THROWS_WITH_AS(fresh.forward(), doctest::Contains("this convolution is new"), StateError);
    CHECK_THROWS_WITH_AS(known.forward(), doctest::Contains("this thread has not run"), StateError);
    emulation::pretend_capture(nullptr);
    CHECK(cudnn_probe().plans == plans);
    known.forward();
  });
  f.check_none_lost();
}

TEST_CASE("plan life: nothing waits for the device while a capture is underway") {
  Fixture f;
  const Problem p(43), q(44), r(45);
  q.forward();
  const auto waited = [] { return cuda::counters().synchronizations; };
  for (const uint64_t before = waited(); waited() == before;) in_thread([&] { p.forward(); });
  for (size_t i = 0; i < cudnn::kMostRetiredPlans; ++i) in_thread([&] { p.forward(); });
  const OwnedStream stream(kGpu);
  {
    const StreamScope on(stream);
    emulation::pretend_capture(static_cast<cudaStream_t>(stream.get().native));
    const uint64_t before = waited();
    q.forward();
    CHECK(waited() == before);
    emulation::pretend_capture(nullptr);
  }
  const size_t plans = cudnn_probe().plans;
  r.forward();
  CHECK(cudnn_probe().plans < plans);
  f.check_none_lost();
}
