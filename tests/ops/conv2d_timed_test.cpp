// How a CPU's ways to convolve are timed and run (conv2d_engines_cpu.h): failures, copies,
// repetition.
#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "conv2d_problem.h"
#include "conv_search/temporary_file.h"
#include "lathe/autograd/checkpoint.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/fused_conv2d.h"
#include "lathe/ops/reduce.h"
#include "measured_conv2d.h"
#include "relative_error.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using enum ConvPass;

}  // namespace

TEST_CASE("conv2d measured: out of memory anywhere, the result is right or the error says so") {
  const Problem p(kSmall, kChannelsLast);
  const Warnings warnings;
  FaultPoint& fault = host_allocator().fault();
  for (const ConvPass pass : kPasses) {
    CAPTURE(concat(pass));
    const Tensor expected = p.exact(pass);
    int right = 0;
    for (int64_t n = 1; n <= 12; ++n) {
      CAPTURE(n);
      const Measured measured;
      Tensor result;
      try {
        const ArmedFault armed(fault, n);
        result = p.by_ops(pass);
      } catch (const OutOfMemoryError&) {
        continue;
      }
      ++right;
      CHECK(relative_error(result, expected) <= 2e-5);
      CHECK(relative_error(p.by_ops(pass), expected) <= 2e-5);
    }
    CHECK(right >= 8);  // all but the result itself and few others
  }
}

TEST_CASE("conv2d measured: a way that fails in use is given up for the next") {
  const Warnings warnings;
  const Problem p(kSmall, kChannelsLast);
  const cpu::MeasuredConv2d call = p.call(kForward);
  const Measured measured;
  std::vector<ConvWay> ran;
  const auto time = [&](ConvWay way, const Tensor& x, const Tensor& w, const Tensor& to) {
    cpu::conv2d_forward_by(way, p.g, to, x, w, {}, {}, nullptr);
  };
  enum { kLathe, kSystem, kLibrary } memory = kLathe;
  const auto fail_first = [&](ConvWay way) {
    ran.push_back(way);
    if (ran.size() > 1) return;
    if (memory == kSystem) throw std::bad_alloc();
    if (memory == kLibrary) LATHE_FAIL(Error, "refused");
    LATHE_FAIL(OutOfMemoryError, "no memory for ", name_of(way));
  };
  cpu::run_measured_conv2d(call, ConvWay::kWinograd4, fail_first, time);
  REQUIRE(ran.size() == 2);
  CHECK(ran[0] != ran[1]);
  CHECK(cpu::measured_conv2d_way(call) == ran[1]);
  REQUIRE(warnings.lines.size() == 1);
  CHECK(warnings.lines[0].find(concat("engine ", name_of(ran[0]), " is given up for engine ",
                                      name_of(ran[1]), ": no memory for")) != std::string::npos);
  for (const auto other : {kSystem, kLibrary}) {
    memory = other;
    conv_search().clear();
    ran.clear();
    cpu::run_measured_conv2d(call, ConvWay::kWinograd4, fail_first, time);
    REQUIRE(ran.size() == 2);
    CHECK(cpu::measured_conv2d_way(call) == ran[1]);
  }
  const auto never = [&](ConvWay) { LATHE_FAIL(OutOfMemoryError, "no memory at all"); };
  CHECK_THROWS_WITH_AS(cpu::run_measured_conv2d(call, ConvWay::kWinograd4, never, time),
                       doctest::Contains("no memory at all"), OutOfMemoryError);
}

TEST_CASE("conv2d measured: a way that cannot be timed is passed over") {
  const Problem p(kSmall, kChannelsLast);
  const Measured measured;
  const auto time = [&](ConvWay way, const Tensor& x, const Tensor& w, const Tensor& to) {
    if (way == ConvWay::kWinograd4) LATHE_FAIL(Error, "refused");
    if (way == ConvWay::kWinograd2) throw std::bad_alloc();
    cpu::conv2d_forward_by(way, p.g, to, x, w, {}, {}, nullptr);
  };
  std::vector<ConvWay> ran;
  cpu::run_measured_conv2d(
      p.call(kForward), ConvWay::kWinograd4, [&](ConvWay way) { ran.push_back(way); }, time);
  REQUIRE(ran.size() == 1);
  CHECK(!cpu::winograd_tile(ran[0]));
}

TEST_CASE("conv2d measured: one long run is no reason to give a way up, two are") {
  const Problem p(kSmall, kChannelsLast);
  const Measured measured;
  std::map<ConvWay, int> runs;
  const auto time = [&](ConvWay way, const Tensor&, const Tensor&, const Tensor&) {
    const int run = ++runs[way];
    const bool cold = way == ConvWay::kWinograd2 && run == 1;
    const bool disturbed = way == ConvWay::kWinograd2 && run == 5;
    const bool is_long = cold || disturbed || way == ConvWay::kIm2col;
    if (is_long || way != ConvWay::kWinograd2)  // which is the fastest by far
      std::this_thread::sleep_for(std::chrono::milliseconds(is_long ? 40 : 2));
  };
  const cpu::MeasuredConv2d call = p.call(kForward);
  cpu::run_measured_conv2d(
      call, ConvWay::kWinograd4, [](ConvWay) {}, time);
  CHECK(runs[ConvWay::kWinograd2] > 5);
  CHECK(runs[ConvWay::kIm2col] == 2);  // one of them to warm up
  const auto choice = conv_search().find(cpu::conv2d_key(call));
  REQUIRE(choice != nullptr);
  for (const ConvTrial& trial : choice->trials) {
    const auto way = static_cast<ConvWay>(trial.candidate.engine.index);
    if (way == ConvWay::kWinograd2) CHECK(trial.ms < 30);
    if (way != ConvWay::kIm2col) continue;
    CHECK(trial.runs == 1);
    CHECK(trial.ms >= 40);
  }
}

TEST_CASE("conv2d measured: a segment that is computed again has the same bits") {
  const Measured measured;
  const Problem p(kSmall, kChannelsLast);
  const Tensor x = p.x.detach().requires_grad_(), w = p.w.detach().requires_grad_();
  // In the first call w * 2.0 requires no gradient, in the second one it does.
  const auto layer = [&](const Tensors& in) { return conv2d(in[0], w * 2.0, p.opt); };
  const Tensor y = checkpoint(layer, {x});
  y.backward(p.dy);
  CHECK(measured.searches() == 3);  // one of the forward pass
  CHECK(bits(layer({x})) == bits(y));
}

TEST_CASE("conv2d measured: a fused segment that is computed again has the same bits") {
  const TemporaryFile file;
  const Problem p(kSmall, kChannelsLast);
  const Tensor residual = randn(p.g.y_shape()).contiguous(kChannelsLast);
  for (const ConvWay way : {ConvWay::kWinograd4, ConvWay::kIm2col}) {
    for (const bool frozen : {false, true}) {
      CAPTURE(concat(name_of(way), frozen ? ", frozen" : ""));
      const Measured measured(file.path);
      // Two ways, so that another key would be noticed by its bits.
      const ConvWay other = way == ConvWay::kIm2col ? ConvWay::kWinograd4 : ConvWay::kIm2col;
      write_choice(file.path, cpu::conv2d_key(p.call(kForward, true)), engine_of(way));
      write_choice(file.path, cpu::conv2d_key(p.call(kForward, false)), engine_of(other));
      conv_search().set_file(file.path);
      const Tensor x = p.x.detach().requires_grad_();
      std::vector<std::vector<float>> seen;
      const auto layer = [&](const Tensors& in) {
        const Tensor images = frozen ? in[0].detach() : in[0];
        const Tensor y = fused_conv2d(images, p.w, p.opt, {.residual = residual, .relu = true});
        seen.push_back(bits(y));
        return y * in[0].sum();
      };
      checkpoint(layer, {x}).sum().backward();
      REQUIRE(seen.size() == 2);
      CHECK(seen[0] == seen[1]);
      const Tensor want = Problem::nan(p.g.y_shape(), kChannelsLast);
      cpu::conv2d_forward_by(way, p.g, want, p.x, p.w, {}, {residual, true}, nullptr);
      CHECK(seen[0] == bits(want));
    }
  }
}

TEST_CASE("conv2d measured: several copies of the call's tensors are timed, in their order") {
  const Measured measured;
  const Problem p(kSmall, kChannelsLast, kChannelsLast);
  for (const auto& [trained, of_model] : {std::pair(true, true), {false, true}, {false, false}}) {
    conv_search().clear();
    p.w.requires_grad_(of_model);
    const autograd::ModeScope mode({.grad = trained});
    std::set<const void*> images, filters, results;
    const auto time = [&](ConvWay, const Tensor& x, const Tensor& w, const Tensor& to) {
      images.insert(x.raw_data());
      filters.insert(w.raw_data());
      results.insert(to.raw_data());
      CHECK(x.strides() == p.x.strides());
      CHECK(w.strides() == p.w.strides());
      CHECK(w.requires_grad() == of_model);
      CHECK(bits(x) == bits(p.x));
      CHECK(bits(w) == bits(p.w));
    };
    cpu::run_measured_conv2d(
        p.call(kForward), ConvWay::kIm2col, [](ConvWay) {}, time);
    CHECK(images.size() == 12);
    CHECK(filters.size() == (trained ? 12 : 1));  // in inference copies of them are kept
    CHECK(results.size() == 12);
    CHECK(!results.contains(p.of(kForward).raw_data()));
    CHECK(!filters.contains(p.w.raw_data()));
  }
}

TEST_CASE("conv2d measured: threads that need one pass share its search") {
  const Measured measured;
  const Problem p(kSmall, kChannelsLast);
  const Tensor expected = p.exact(kForward);
  std::vector<Tensor> results(3);
  std::vector<std::thread> threads;
  for (Tensor& result : results) threads.emplace_back([&] { result = p.by_ops(kForward); });
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& result : results) {
    CHECK(bits(result) == bits(results[0]));
    CHECK(relative_error(result, expected) <= 2e-5);
  }
  CHECK(measured.searches() == 1);
}
