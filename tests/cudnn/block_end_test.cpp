// An input gradient that goes on through the end of the residual block before
// (Unmeasured::kResidualGrad), on a GPU or over the emulated cuDNN: against f64 and the split
// engine, and where it must not.
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "cudnn_problem.h"
#include "fused_choices.h"
#include "lathe/core/unmeasured.h"
#include "lathe/lathe.h"

using namespace lathe;
using namespace lathe::test;

TEST_SUITE_BEGIN("cudnn" * cuda_case());

namespace {

/// A clean start, with the part on.
struct BlockEndFixture : CudnnFixture {
  BlockEndFixture() {
    cudnn::set_benchmark(true);
    cudnn::set_search_limits({.ms = 1e-3});  // choose() decides
    set_unmeasured("residual-grad");
    manual_seed(1);
  }
  ~BlockEndFixture() { set_unmeasured(""); }
};

/// The end of a block and what reads it: a convolution, and a sum with dy that stands for the
/// shortcut beside it.
struct EndProblem {
  Tensor x, residual, weight, bias, w, dy, dz;

  Tensors leaves() const { return {x, residual, weight, bias, w}; }
  EndProblem in_f64() const {
    const auto wide = [](const Tensor& t) { return cast(t.detach().cpu(), kF64).clone(); };
    return {wide(x), wide(residual), wide(weight), wide(bias), wide(w), wide(dy), wide(dz)};
  }
};
constexpr const char* kLeaves[] = {"dx", "dresidual", "dweight", "dbias", "dw"};

EndProblem end_problem(int64_t channels, int64_t size, int64_t filter = 3) {
  const auto half = [](const Tensor& t) {
    return cast(t, kF16).contiguous(kChannelsLast).to(kGpu);
  };
  const Shape x{4, channels, size, size};
  const double fan = static_cast<double>(channels * filter * filter);
  return {half(randn(x) * 1.5 + randn({1, channels, 1, 1})),
          half(randn(x)),
          (rand({channels}) + 0.5).to(kGpu),
          (randn({channels}) * 0.3).to(kGpu),
          half(randn({channels, channels, filter, filter}) * std::sqrt(2 / fan)),
          half(randn(x)),
          half(randn(x))};
}

/// y, the end of the block.
Tensor block_end(const EndProblem& p) {
  for (const Tensor& t : p.leaves()) {
    t.requires_grad_();
    t.set_grad({});
  }
  const TensorOptions here{.dtype = p.weight.dtype(), .device = p.weight.device()};
  const Tensor mean = zeros({p.x.dim(1)}, here), var = ones({p.x.dim(1)}, here);
  return batch_norm_add_relu(p.x, p.residual, p.weight, p.bias, mean, var, {.training = true});
}

Tensor wide_sum(const EndProblem& p, const Tensor& a, const Tensor& b) {
  return sum(cast(a, p.weight.dtype()) * cast(b, p.weight.dtype()));
}

Tensor loss_of(const EndProblem& p, const Tensor& y) {
  const Tensor z = conv2d(y, p.w, {.pad = p.w.dim(2) / 2});
  return wide_sum(p, z, p.dz) + wide_sum(p, y, p.dy);
}

Tensors end_grads(const EndProblem& p) {
  Tensors all;
  for (const Tensor& t : p.leaves()) all.push_back(t.grad().clone());
  return all;
}

Tensors end_step(const EndProblem& p) {
  loss_of(p, block_end(p)).backward();
  return end_grads(p);
}

}  // namespace

TEST_CASE("block end: gradients through it and split agree with f64") {
  BlockEndFixture f;
  for (const auto& [channels, size, filter] :
       {std::array<int64_t, 3>{8, 8, 3}, {16, 5, 3}, {64, 4, 3}, {16, 6, 1}}) {
    INFO(channels, " channels, ", filter, "x", filter);
    const EndProblem p = end_problem(channels, size, filter);
    const Tensors want = end_step(p.in_f64());
    const Choices searched = search([&] { end_step(p); });
    for (const FusedOrSplit kind : {kFused, kSplit}) {
      choose(searched, kind);
      for (const char* parts : {"residual-grad", "residual-grad,relu-bits"}) {
        set_unmeasured(parts);
        forget_executions();
        const Tensors got = end_step(p);
        CHECK(fused_executions() == (kind == kFused ? 2 : 0));  // the convolution leaves sums, too
        std::string text;
        for (size_t i = 0; i < got.size(); ++i) {
          INFO(std::string(kLeaves[i]), " ", kind == kFused);
          const double error = error_of(got[i], want[i]);
          text += concat(" ", kLeaves[i], " ", error);
          CHECK(error < 3 * kHalfRounding);
        }
        MESSAGE(std::string(kind == kFused ? "through:" : "split:"), text);
      }
      set_unmeasured("residual-grad");
    }
    CHECK(f.dropped() == 0);
    conv_search().clear();
  }
}

TEST_CASE("block end: who else reads the gradient sees all of it, and late gradients are added") {
  BlockEndFixture f;
  const EndProblem p = end_problem(8, 6), wide = p.in_f64();
  choose(search([&] { end_step(p); }), kFused);
  const auto check = [&](const auto& step, int64_t times) {
    forget_executions();
    const Tensor got = step(p);
    CHECK(fused_executions() == 1 + times);  // the convolution itself, and through the block
    const Tensor want = step(wide);
    CHECK(error_of(got, want) < 4 * kHalfRounding);
    const Tensors grads = end_grads(p), exact = end_grads(wide);
    for (size_t i = 0; i < grads.size(); ++i)
      CHECK(error_of(grads[i], exact[i]) < 4 * kHalfRounding);
  };
  SUBCASE("a hook") {
    check(
        [](const EndProblem& q) {
          Tensor seen;
          const Tensor y = block_end(q);
          y.register_hook([&](const Tensor& dy) { return seen = dy, Tensor(); });
          loss_of(q, y).backward();
          return seen;
        },
        0);
  }
  SUBCASE("retain_grad") {
    check(
        [](const EndProblem& q) {
          const Tensor y = block_end(q);
          y.retain_grad();
          loss_of(q, y).backward();
          return y.grad();
        },
        0);
  }
  SUBCASE("the gradient of y itself") {
    check(
        [](const EndProblem& q) {
          const Tensor y = block_end(q), loss = loss_of(q, y);
          const Tensor dy = grad({loss}, {y}, {.retain_graph = true})[0];
          loss.backward();
          return dy;
        },
        1);  // by the second pass
  }
  SUBCASE("a third gradient, which comes behind that of the convolution") {
    check(
        [](const EndProblem& q) {
          const Tensor y = block_end(q), more = wide_sum(q, y, q.dz);
          (loss_of(q, y) + more).backward();
          return q.x.grad();
        },
        1);
  }
  SUBCASE("a second pass through the same graph") {
    check(
        [](const EndProblem& q) {
          const Tensor loss = loss_of(q, block_end(q));
          loss.backward({.retain_graph = true});
          for (const Tensor& t : q.leaves()) t.set_grad({});
          loss.backward();
          return q.x.grad();
        },
        2);
  }
}

TEST_CASE("block end: not through one whose residual was written, nor with a stride") {
  BlockEndFixture f;
  const EndProblem p = end_problem(8, 6);
  const Tensors want = end_step(p.in_f64());
  choose(search([&] { end_step(p); }), kFused);
  const Tensor loss = loss_of(p, block_end(p));
  {
    const NoGrad off;
    p.residual.mul_(-1);
  }
  forget_executions();
  loss.backward();
  CHECK(fused_executions() == 0);
  const Tensors got = end_grads(p);
  for (size_t i = 0; i < got.size(); ++i) CHECK(error_of(got[i], want[i]) < 4 * kHalfRounding);

  const auto strided = [&] {
    const Tensor y = block_end(p);
    (sum(conv2d(y, p.w, {.stride = 2, .pad = 1})) + sum(y)).backward();
  };
  choose(search(strided), kFused);
  forget_executions();
  strided();
  CHECK(fused_executions() == 1);
}

TEST_CASE("block end: nn's blocks go through it, with a kernel of our own less for each") {
  BlockEndFixture f;
  nn::Sequential blocks;
  blocks.add<nn::BasicBlock>(8, 8, 1, true);
  blocks.add<nn::BasicBlock>(8, 8, 1, true);
  blocks.add<nn::BasicBlock>(8, 16, 2, true);
  blocks.add<nn::BasicBlock>(16, 16, 1, true);
  blocks.to(kGpu).to(kChannelsLast);
  const Tensor x = randn({4, 8, 8, 8}).contiguous(kChannelsLast).to(kGpu);
  int64_t launches = 0;
  const auto step = [&](const char* parts) {
    set_unmeasured(parts);
    blocks.zero_grad();
    launches = own_launches([&] {
      Tensor loss;
      {
        const Autocast half(kGpu, kF16);
        loss = sum(square(blocks(x.to(kF16)).to(kF32)));
      }
      loss.backward();
    });
    Tensors grads;
    for (const Tensor& t : blocks.parameters()) grads.push_back(t.grad().cpu().clone());
    return grads;
  };
  choose(search([&] { step("residual-grad"); }), kFused);
  const Tensors split = step("");
  const int64_t before = launches;
  const Tensors through = step("residual-grad");
  CHECK(before - launches == 2);
  for (size_t i = 0; i < split.size(); ++i)
    CHECK(error_of(through[i], cast(split[i], kF64)) < 1e-2);
}

TEST_SUITE_END();
