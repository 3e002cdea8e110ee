// The search that measures a CPU's ways to convolve (conv2d_engines_cpu.h): keys and choices.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "conv2d_problem.h"
#include "conv_search/temporary_file.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/math_mode.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/ops/batch_norm_conv2d.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/conv/conv2d_passes_cpu.h"
#include "lathe/ops/fused_conv2d.h"
#include "lathe/tests/threads_scope.h"
#include "measured_conv2d.h"
#include "relative_error.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using enum ConvPass;

}  // namespace

TEST_CASE("conv2d measured: without the mode the rule's bits, and no search") {
  const Measured measured;
  cpu::set_conv_benchmark(false);
  for (const Conv2dCase& c : kLargeCases) {
    CAPTURE(c.name);
    const Problem p(c, kChannelsLast);
    const ConvWay rule = cpu::conv2d_rule(p.g, kChannelsLast, kF32);
    for (const ConvPass pass : kPasses) CHECK(bits(p.by_ops(pass)) == bits(p.by(rule, pass)));
  }
  CHECK(conv_search().choices().empty());
}

TEST_CASE("conv2d measured: each pass is searched once, and remembered") {
  const Measured measured;
  const Problem p(kSmall, kChannelsLast);
  uint64_t searches = 0;
  for (const ConvPass pass : kPasses) {
    CHECK(relative_error(p.by_ops(pass), p.exact(pass)) <= 2e-5);
    CHECK(measured.searches() == ++searches);
    const auto choice = conv_search().find(cpu::conv2d_key(p.call(pass, pass == kForward)));
    REQUIRE(choice != nullptr);
    CHECK(choice->trials.size() == p.ways(pass).size());
    for (const ConvTrial& trial : choice->trials) {
      CAPTURE(trial.candidate.engine.index);
      CHECK(trial.outcome == ConvOutcome::kTimed);
      CHECK(trial.ms > 0);
    }
    const auto way = static_cast<ConvWay>(choice->candidate().engine.index);
    const uint64_t hits = measured.hits();
    CHECK(bits(p.by_ops(pass)) == bits(p.by(way, pass)));
    CHECK(measured.hits() == hits + 1);
    CHECK(measured.searches() == searches);
  }
}

TEST_CASE("conv2d measured: what is not f32 is not measured") {
  const Measured measured;
  const Problem p(kSmall, kChannelsLast);
  for (const ConvPass pass : kPasses) p.exact(pass);
  conv2d(zeros({0, 16, 8, 8}), p.w, p.opt);  // no sizes to measure
  CHECK(conv_search().choices().empty());
}

TEST_CASE("conv2d measured: in deterministic mode nothing is timed, and the rule chooses") {
  const Measured measured;
  set_deterministic(true);
  const Problem p(kSmall, kChannelsLast);
  const ConvWay rule = cpu::conv2d_rule(p.g, kChannelsLast, kF32);
  for (const ConvPass pass : kPasses) CHECK(bits(p.by_ops(pass)) == bits(p.by(rule, pass)));
  set_deterministic(false);
  CHECK(conv_search().choices().empty());
}

TEST_CASE("conv2d measured: exact convolutions have direct ways alone, under keys of their own") {
  const Measured measured;
  const Problem p(kSmall, kChannelsLast);
  p.by_ops(kForward);
  const ExactScope exact(true);
  for (const ConvPass pass : kPasses) p.by_ops(pass);
  CHECK(measured.searches() == 4);
  for (const auto& [key, choice] : conv_search().choices()) {
    if (!key.direct) continue;
    CHECK(concat(key).find(" sums=direct ") != std::string::npos);
    for (const ConvTrial& trial : choice->trials) {
      CHECK(!is_winograd(static_cast<ConvWay>(trial.candidate.engine.index)));
    }
  }
}

TEST_CASE("conv2d measured: every way that a file names is the one that runs") {
  for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
    const Problem p(kSmall, format);
    for (const ConvPass pass : kPasses) {
      for (const ConvWay way : p.ways(pass)) {
        CAPTURE(concat(pass, " ", name_of(way)));
        const TemporaryFile file;
        const Measured measured(file.path);
        const ConvKey key =
            cpu::conv2d_key(p.call(pass, pass == kForward && format == kChannelsLast));
        write_choice(file.path, key, engine_of(way));
        CHECK(bits(p.by_ops(pass)) == bits(p.by(way, pass)));
        CHECK(measured.from_file() == 1);
        CHECK(measured.searches() == 0);
        CHECK(engine_text(key, engine_of(way)) == name_of(way));
      }
    }
  }
}

TEST_CASE("conv2d measured: the file has it for the next process") {
  const TemporaryFile file;
  const Measured measured(file.path);
  const Problem p(kBlock, kChannelsLast);
  const auto run = [&] {
    std::vector<std::vector<float>> all;
    for (const ConvPass pass : kPasses) all.push_back(bits(p.by_ops(pass)));
    return all;
  };
  const auto first = run();
  CHECK(measured.searches() == 3);
  conv_search().clear();
  conv_search().set_file(file.path);  // it is read again
  CHECK(run() == first);
  CHECK(measured.searches() == 3);
  CHECK(measured.from_file() == 3);
}

TEST_CASE("conv2d measured: a way that is not there is searched for again") {
  const Problem p(kSmall, kChannelsLast);
  const ConvEngine strange[] = {
      {99, {}}, {-1, {}}, {0, {}}, {3, {}}, {1, {{2, 5}}}};  // 3: products
  for (const ConvEngine& engine : strange) {
    CAPTURE(concat(engine));
    const TemporaryFile file;
    const Measured measured(file.path);
    write_choice(file.path, cpu::conv2d_key(p.call(kForward, true)), engine);
    CHECK(relative_error(p.by_ops(kForward), p.exact(kForward)) <= 2e-5);
    CHECK(measured.from_file() == 0);
    CHECK(measured.searches() == 1);
  }
}

TEST_CASE("conv2d measured: the key has what changes the answer") {
  const Measured measured;
  const Problem p(kSmall, kChannelsLast), rows(kSmall, kContiguous),
      filters(kSmall, kChannelsLast, kChannelsLast);
  const ConvKey key = cpu::conv2d_key(p.call(kForward));
  CHECK(parse_conv_key(concat(key)) == key);
  CHECK(key.mode == ConvMode::kBenchmark);
  CHECK(is_cpu_library(key.machine->library));
  const cpu::FastConv2dInfo info = cpu::fast_conv2d_info();
  CHECK(key.machine->library.find(info.library) != std::string::npos);
  CHECK(key.machine->device.find(info.instructions) != std::string::npos);
  CHECK(key.machine->device.find("vectors of ") != std::string::npos);
  CHECK(key.machine->multiprocessors == num_threads());
  std::set<ConvKey> keys{key,
                         cpu::conv2d_key(rows.call(kForward)),
                         cpu::conv2d_key(filters.call(kForward)),
                         cpu::conv2d_key(p.call(kForward, true)),
                         cpu::conv2d_key(p.call(kBackwardInput)),
                         cpu::conv2d_key(p.call(kBackwardWeight))};
  {
    const ThreadsScope more(num_threads() + 1);
    keys.insert(cpu::conv2d_key(p.call(kForward)));
  }
  {
    const ExactScope exact(true);
    keys.insert(cpu::conv2d_key(p.call(kForward)));
  }
  {
    const NoGrad infers;
    keys.insert(cpu::conv2d_key(p.call(kForward)));  // constant filters
    p.w.requires_grad_();
    keys.insert(cpu::conv2d_key(p.call(kForward)));  // a model's
    p.w.requires_grad_(false);
  }
  CHECK(keys.size() == 10);
}

TEST_CASE("conv2d measured: another number of threads is searched anew") {
  const Measured measured;
  const Problem p(kSmall, kChannelsLast);
  p.by_ops(kForward);
  const ThreadsScope more(num_threads() + 1);
  p.by_ops(kForward);
  CHECK(measured.searches() == 2);
}

TEST_CASE("conv2d measured: timed ways leave no copies of constant filters behind") {
  const Measured measured;
  const NoGrad infers;
  const Problem p(kBlock, kChannelsLast), other(kSmall, kChannelsLast);
  const auto held = [&] {  // after Winograd, which looks for kept filters and frees what is unused
    other.by(ConvWay::kWinograd4, kForward);
    return host_allocator().stats().allocated_bytes;
  };
  const size_t before = held();
  p.by_ops(kForward);
  CHECK(measured.searches() == 1);
  // Those of the way that was taken, rounded up by the allocator.
  CHECK(held() - before < 36 * 64 * 64 * sizeof(float) * 3 / 2);
}

TEST_CASE("conv2d measured: what may run is all that is listed, and of our own ways no more") {
  for (const bool exactly : {false, true}) {
    const ExactScope exact(exactly);
    for (const Conv2dCase& c : kLargeCases) {
      for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
        CAPTURE(concat(c.name, format == kChannelsLast ? " nhwc" : "", exactly ? " exact" : ""));
        const Problem p(c, format);
        for (const ConvPass pass : kPasses) {
          const std::vector<ConvWay> ways = p.ways(pass);
          for (int i = 0; i < 10; ++i) {
            const auto way = static_cast<ConvWay>(i);
            const bool listed = std::ranges::count(ways, way) > 0;
            const bool may = cpu::conv2d_may_run(way, p.g, conv2d_format(p.call(pass).x));
            CHECK(may >= listed);
            if (way != ConvWay::kDnnlWinograd) CHECK(may == listed);
          }
        }
      }
    }
  }
}

TEST_CASE("conv2d measured: all forms of a layer take the same way") {
  const TemporaryFile file;
  const Measured measured(file.path);
  const Problem p(kSmall, kChannelsLast);
  const Tensor bias = randn({16}), residual = randn(p.g.y_shape()).contiguous(kChannelsLast);
  for (const ConvWay way : p.ways(kForward)) {
    CAPTURE(std::string(name_of(way)));
    const NoGrad infers;
    conv_search().clear();
    write_choice(file.path, cpu::conv2d_key(p.call(kForward)), engine_of(way));
    conv_search().set_file(file.path);
    Conv2dOptions opt = p.opt;
    opt.bias = bias;
    const Tensor y = fused_conv2d(p.x, p.w, opt, {.residual = residual, .relu = true});
    const Tensor want = Problem::nan(p.g.y_shape(), kChannelsLast);
    cpu::conv2d_forward_by(way, p.g, want, p.x, p.w, bias, {residual, true}, nullptr);
    CHECK(bits(y) == bits(want));
    CHECK(bits(conv2d(p.x, p.w, p.opt)) == bits(p.by(way, kForward)));
  }
  CHECK(measured.searches() == 0);
}

TEST_CASE("conv2d measured: norm, relu and convolution are one op where both passes are Winograd") {
  const Conv2dCase layer{"", {4, 16, 12, 12}, {16, 16, 3, 3}, {.pad = 1}};
  const Problem p(layer, kChannelsLast);
  const Tensor weight = rand({16}) + 0.5, bias = randn({16});
  bool frozen = false;
  const auto step = [&](Tensors& grads) {
    const Tensors leaves{p.x.detach(), weight.detach(), bias.detach(), p.w.detach()};
    for (const Tensor& t : leaves) t.requires_grad_();
    leaves[3].requires_grad_(!frozen);
    const Tensor y =
        batch_norm_relu_conv2d(leaves[0], {leaves[1], leaves[2], zeros({16}), ones({16})},
                               leaves[3], {.training = true}, p.opt);
    y.backward(p.dy);
    grads = {y.detach()};
    for (const Tensor& t : leaves) {
      if (t.requires_grad()) grads.push_back(t.grad());
    }
    return y.grad_fn() == "batch_norm_relu_conv2d";
  };
  Tensors want;
  CHECK(step(want));  // by the rule
  const ConvWay ways[] = {ConvWay::kWinograd4, ConvWay::kWinograd2, ConvWay::kIm2col};
  for (const ConvWay forward : ways) {
    for (const ConvWay back : ways) {
      CAPTURE(concat(name_of(forward), ", ", name_of(back)));
      const TemporaryFile file;
      const Measured measured(file.path);
      write_choice(file.path, cpu::conv2d_key(p.call(kForward, true)), engine_of(forward));
      write_choice(file.path, cpu::conv2d_key(p.call(kBackwardWeight)), engine_of(back));
      Tensors first, second;
      CHECK(!step(first));  // nothing is known yet
      CHECK(step(second) == (cpu::winograd_tile(forward) && cpu::winograd_tile(back)));
      for (size_t i = 0; i < want.size(); ++i) {
        CAPTURE(i);
        CHECK(relative_error(first[i], want[i]) <= 5e-5);  // of two convolutions, as above
        CHECK(bits(second[i]) == bits(first[i]));
      }
      CHECK(measured.from_file() == 2);
    }
  }
  frozen = true;
  for (const ConvWay forward : ways) {
    CAPTURE(std::string(name_of(forward)));
    const TemporaryFile file;
    const Measured measured(file.path);
    write_choice(file.path, cpu::conv2d_key(p.call(kForward, true)), engine_of(forward));
    Tensors first, second;
    CHECK(!step(first));
    CHECK(step(second) == cpu::winograd_tile(forward).has_value());
    REQUIRE(second.size() == 4);
    for (size_t i = 0; i < second.size(); ++i) {
      CHECK(relative_error(first[i], want[i]) <= 5e-5);
      CHECK(bits(second[i]) == bits(first[i]));
    }
  }
}
