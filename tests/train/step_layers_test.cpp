// The times of a step, from recordings whose numbers are known.
#include "lathe/train/plan/step_layers.h"

#include <doctest/doctest.h>

#include <map>

#include "lathe/nn/resnet.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/profile/profiler.h"

namespace lathe::plan {
namespace {

using profile::Kind;
using profile::Record;

/// [2,4,8,8] → [2,4,8,8], 3x3; with another distance between the taps the shapes stay the same.
Conv2dGeometry same_size(int64_t dilation) {
  return {.N = 2,
          .C = 4,
          .H = 8,
          .W = 8,
          .K = 4,
          .R = 3,
          .S = 3,
          .P = 8,
          .Q = 8,
          .stride = 1,
          .pad = dilation,
          .dilation = dilation,
          .groups = 1};
}

/// [2,4,16,16] → [2,4,8,8], 3x3, stride 2: dy, w and the operations are those of same_size().
Conv2dGeometry halved() {
  Conv2dGeometry g = same_size(1);
  g.H = g.W = 16;
  g.stride = 2;
  return g;
}

/// A range of one thread; they end in the order of the list.
Record range(const char* name, Kind kind, uint32_t depth, int64_t begin_ns, int64_t end_ns) {
  return {.name = name, .kind = kind, .depth = depth, .begin_ns = begin_ns, .end_ns = end_ns};
}

Record call(const char* name, uint32_t depth, int64_t begin_ns, int64_t end_ns, const Shape& a,
            const Shape& b, const Shape& result) {
  Record record = range(name, Kind::kOp, depth, begin_ns, end_ns);
  record.inputs = {{kF32, a}, {kF32, b}};
  record.flops = static_cast<int64_t>(same_size(1).flops());
  record.bytes = 4 * (numel_of(a) + numel_of(b) + numel_of(result));
  return record;
}

TEST_CASE("step times: every nanosecond of a known recording is in the right row") {
  const std::vector<ConvLayer> layers{{"a", 2, same_size(1), false},
                                      {"strided", 1, halved(), false},
                                      {"dilated", 3, same_size(2), false}};
  const Shape x{2, 4, 8, 8}, large{2, 4, 16, 16}, w{4, 4, 3, 3};
  profile::Recording recording;
  recording.threads.push_back(
      {.records = {
           range("reorder", Kind::kOp, 2, 110, 130),
           call("conv2d", 1, 100, 200, x, w, x),
           call("conv2d", 1, 200, 230, large, w, x),
           range("batch_norm_relu", Kind::kOp, 1, 230, 270),
           range("reorder", Kind::kOp, 4, 301, 304),
           call("conv2d_input_grad", 3, 300, 350, x, w, x),
           call("conv2d_input_grad", 3, 350, 357, x, w, large),
           call("conv2d_weight_grad", 3, 357, 370, x, x, w),
           range("conv2d", Kind::kBackward, 2, 290, 380),  // 20 ns of its own
           range("batch_norm_relu", Kind::kBackward, 2, 380, 400),
           range("backward pass", Kind::kOp, 1, 290, 405),  // 5 ns
           range("mul", Kind::kOp, 2, 412, 417),            // a part of the optimiser
           range("SGD", Kind::kOptimizer, 1, 410, 420),
           range("reorder", Kind::kUser, 1, 420, 430),       // the program's own
           call("conv2d", 1, 430, 431, x, {9, 4, 3, 3}, x),  // of no layer
           range("step", Kind::kUser, 0, 0, 500),
       }});
  const StepTimes times = step_times(recording, layers);

  REQUIRE(times.layers.size() == 5);  // the weight gradient of "strided" never ran
  const auto check = [&](size_t row, const char* name, ConvPass pass, int64_t count, double ns,
                         double reorder_ns) {
    CAPTURE(row);
    const LayerTime& time = times.layers[row];
    CHECK(time.layer->name == name);
    CHECK(time.pass == pass);
    CHECK(time.count == count);
    CHECK(time.calls == 1);
    CHECK(1e9 * time.seconds == doctest::Approx(ns));
    CHECK(1e9 * time.reorder_seconds == doctest::Approx(reorder_ns));
  };
  check(0, "a", ConvPass::kForward, 5, 100, 20);  // with "dilated", whose shapes are the same
  check(1, "a", ConvPass::kBackwardInput, 5, 50, 3);
  check(2, "a", ConvPass::kBackwardWeight, 5, 13, 0);
  check(3, "strided", ConvPass::kForward, 1, 30, 0);
  check(4, "strided", ConvPass::kBackwardInput, 1, 7, 0);

  std::map<std::string, double> parts;
  for (const StepPart& part : times.parts) parts[part.name] = 1e9 * part.seconds;
  CHECK(parts["convolution"] == doctest::Approx(80 + 30 + 47 + 7 + 13 + 1));
  CHECK(parts["reorder"] == doctest::Approx(23));
  CHECK(parts["batch norm"] == doctest::Approx(60));
  CHECK(parts["optimiser"] == doctest::Approx(10));
  CHECK(parts["sum of gradients"] == doctest::Approx(20));
  CHECK(parts["other ops"] == doctest::Approx(5));
  CHECK(parts["no op"] == doctest::Approx(500 - 100 - 30 - 40 - 115 - 10 - 1));
  CHECK(1e9 * times.seconds == doctest::Approx(500));
}

TEST_CASE("step times: the calls of a real step are those of the model's layers") {
  auto model = nn::resnet20();
  const Shape input{2, 3, 8, 8};
  const std::vector<ConvLayer> layers = conv_layers(model, input);
  profile::Profiler profiler({.record_shapes = true});
  sum(model(randn(input))).backward();
  profiler.stop();
  int64_t calls = 0;
  for (const LayerTime& time : step_times(profiler.recording(), layers).layers) {
    CAPTURE(time.layer->name);
    CHECK(time.calls == time.count);
    calls += time.calls;
  }
  CHECK(calls == 3 * 19 - 1);  // the first layer's input needs no gradient
}

}  // namespace
}  // namespace lathe::plan
