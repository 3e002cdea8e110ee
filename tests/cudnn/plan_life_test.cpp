// How long cuDNN's plans live: on a GPU, or over the emulated cuDNN, which notices when one is gone
// before its work has run.
#include <functional>
#include <string>
#include <thread>

#include "../cuda_case.h"
#include "../ops/compare.h"
#include "../same_memory.h"
#include "conv_keys.h"
#include "executions.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/gpu/cudnn_retired.h"
#include "lathe/core/log.h"
#include "lathe/core/stream.h"
#include "lathe/ops/conv/search/conv_search.h"
#include "lathe/ops/conv2d.h"

using namespace lathe;
using namespace lathe::test;

TEST_SUITE_BEGIN("cudnn" * cuda_case());

namespace {

const Device kGpu(DeviceType::kCUDA);

struct Fixture {
  Fixture() {
    conv_search().clear();
    synchronize(current_stream(kGpu));
    lost = lost_plans();
    handler = set_log_handler([](LogLevel, std::string_view) {});
  }
  ~Fixture() {
    conv_search().clear();
    set_log_handler(handler);
  }
  void check_none_lost() const {
    cuda::synchronize(kGpu);
    CHECK(lost_plans() == lost);
  }

  EmulatedCount lost;
  LogHandler handler;
};

/// A convolution of its own height for each case.
struct Problem {
  explicit Problem(int64_t height)
      : g(geometry_of({"", {1, 2, height, 3}, {2, 2, 3, 3}, {.pad = 1}})),
        x(same_memory_on(kGpu, rand(g.x_shape()).contiguous(kChannelsLast))),
        w(same_memory_on(kGpu, rand(g.w_shape()).contiguous(kChannelsLast))) {}
  Tensor forward() const { return cuda::conv2d_forward(g, x, w, {}); }
  void check(const Tensor& y) const {
    const Tensor want = cpu::conv2d_forward(g, x.cpu(), w.cpu(), {});
    CHECK(difference(y.cpu(), want, kDeviceTolerance) == "");
  }

  Conv2dGeometry g;
  Tensor x, w;
};

void in_thread(const std::function<void()>& f) { std::thread(f).join(); }

uint64_t waits() { return cuda::counters().synchronizations; }

}  // namespace

TEST_CASE("plan life: a thread ends while its work is queued, and waits for nothing") {
  const Fixture f;
  const Problem p(41);
  Tensor y;
  in_thread([&] {
    const OwnedStream stream(kGpu);
    const StreamScope on(stream);
    const uint64_t before = waits();
    y = p.forward();
    CHECK(waits() == before);
  });
  f.check_none_lost();
  p.check(y);
}

TEST_CASE("plan life: more keys than a thread keeps") {
  const Fixture f;
  const EmulatedCount before = plans();
  const uint64_t waited_before = waits();
  const Tensor w = same_memory_on(kGpu, rand({2, 2, 3, 3}));
  const Tensor x = same_memory_on(kGpu, rand({1, 2, 40, 30}));
  Tensors widest;  // of each height
  in_thread([&] {
    for (int64_t height = 1; height <= 40; ++height) {
      for (int64_t width = 1; width <= 30; ++width) {
        const Shape shape{1, 2, height, width};
        const Tensor part = alias(x, shape, contiguous_strides(shape), 0);
        const Conv2dGeometry g = geometry_of({"", shape, w.shape(), {.pad = 1}});
        const Tensor y = cuda::conv2d_forward(g, part, w, {});
        if (width == 30) widest.push_back(y);
      }
      CHECK(plans() <= before + (1024 + cudnn::kMostRetiredPlans + 1));
    }
  });
  const uint64_t waited = waits() - waited_before;
  CHECK(waited >= 2);
  CHECK(waited <= 1 + 1200 / cudnn::kMostRetiredPlans);
  f.check_none_lost();
  for (const Tensor& y : widest) {
    const Shape shape{1, 2, y.dim(2), 30};
    const Conv2dGeometry g = geometry_of({"", shape, w.shape(), {.pad = 1}});
    const Tensor part = alias(x, shape, contiguous_strides(shape), 0);
    const Tensor want = cpu::conv2d_forward(g, part.cpu(), w.cpu(), {});
    CHECK(difference(y.cpu(), want, kDeviceTolerance) == "");
  }
}

TEST_CASE("plan life: a captured plan stays for its graph, whatever becomes of the rest") {
  const Fixture f;
  const Problem p(42);
  p.forward();
  cuda::Graph graph(kGpu);
  Tensor y;
  in_thread([&] {
    p.forward();
    graph.capture([&] { y = p.forward(); });
  });
  for (size_t i = 0; i <= 2 * cudnn::kMostRetiredPlans; ++i) in_thread([&] { p.forward(); });
  f.check_none_lost();
  conv_search().clear();
  for (int launch = 0; launch < 2; ++launch) {
    y.fill_(0.0);
    graph.launch();
    f.check_none_lost();
    p.check(y);
  }
}

TEST_CASE("plan life: a capture loads no code, neither for a new problem nor for a new thread") {
  const Fixture f;
  const Problem fresh(46), known(47);
  known.forward();
  in_thread([&] {
    const EmulatedCount before = plans();
    cuda::Graph nothing(kGpu);
    nothing.capture([&] {
      CHECK_THROWS_WITH_AS(fresh.forward(), doctest::Contains("this convolution is new"),
                           StateError);
      CHECK_THROWS_WITH_AS(known.forward(), doctest::Contains("this thread has not run"),
                           StateError);
    });
    CHECK(plans() == before);
    known.check(known.forward());
  });
  f.check_none_lost();
}

TEST_CASE("plan life: nothing waits for the device while a capture is underway") {
  const Fixture f;
  const Problem p(43), q(44), r(45), s(48);
  q.forward();
  for (const uint64_t before = waits(); waits() == before;) in_thread([&] { p.forward(); });
  for (size_t i = 0; i < cudnn::kMostRetiredPlans; ++i) in_thread([&] { p.forward(); });
  cuda::Graph graph(kGpu);
  Tensor captured, beside;
  const uint64_t before = waits();
  graph.capture([&] {
    captured = q.forward();
    in_thread([&] { beside = r.forward(); });  // makes a plan
  });
  CHECK(waits() == before);
  s.forward();  // makes one, too
  CHECK(waits() > before);
  graph.launch();
  f.check_none_lost();
  q.check(captured);
  r.check(beside);
}

TEST_SUITE_END();
