// Fused groups on a GPU as programs use them: compiled at their first call, loaded by the driver,
// and launched. The GPU is the interpreter.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/autograd/engine.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/error.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/compile.h"
#include "lathe/graph/fused/pointwise_run.h"
#include "lathe/graph/op_table.h"
#include "lathe/ops/activations.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"
#include "lathe/tests/cuda/on_device.h"
#include "nvrtc_case.h"

using namespace lathe;

namespace {

/// Equal to the bit, NaNs included.
bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype() || a.strides() != b.strides()) return false;
  const Tensor x = contiguous(test::on_host(a)), y = contiguous(test::on_host(b));
  return std::memcmp(x.raw_data(), y.raw_data(),
                     static_cast<size_t>(x.numel()) * size_of(x.dtype())) == 0;
}

/// The parts of a Huber loss: two results, which both need d.
Tensors huber(const Tensors& t) {
  const Tensor d = t[0] - t[1], size = d.abs();
  const Tensor inner = d.square() * 0.5, outer = size - 0.5, is_inner = size < 1;
  const Tensor other = neg(size);
  return {where(is_inner, inner, outer), exp(other)};
}

bool says(const jit::CompiledFunction& f, const std::string& part) {
  return f.explain().find(part) != std::string::npos;
}

/// Values and gradients of f, to be compared.
Tensors with_gradients(const std::function<Tensors(const Tensors&)>& f, const Tensors& inputs) {
  Tensors leaves;
  for (const Tensor& t : inputs) leaves.push_back(t.detach());
  leaves[0].requires_grad_();
  Tensors all = f(leaves);
  Tensor loss = sum(all[0].to(kF32));
  for (size_t i = 1; i < all.size(); ++i) loss = loss + sum(all[i].to(kF32) * 0.25);
  loss.backward();
  for (Tensor& t : all) t = t.detach();
  all.push_back(leaves[0].grad());
  return all;
}

void check_same(const Tensors& got, const Tensors& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(same_bits(got[i], want[i]));
}

Tensor on_gpu(const Shape& shape, DType dtype) {
  return test::on_device(cast(randn(shape), dtype));
}

/// y = x * x + x.
std::shared_ptr<const jit::PointwiseProgram> small_program(const Shape& shape) {
  const auto op = [](const char* name) {
    for (const jit::Op& each : jit::all_ops()) {
      if (each.name == name) return &each;
    }
    return static_cast<const jit::Op*>(nullptr);
  };
  return std::make_shared<const jit::PointwiseProgram>(jit::PointwiseProgram{
      .shape = shape,
      .inputs = 1,
      .steps = {{op("mul"), {0, 0}, {}, kF32, 1}, {op("add"), {1, 0}, {}, kF32}},
      .results = {1}});
}

}  // namespace

TEST_CASE("fused groups: one kernel of a compiled function has the bits of its ops" *
          test::nvrtc_case()) {
  manual_seed(3);
  for (const DType dtype : {kF32, kF16}) {
    const jit::CompiledFunction f = jit::compile(huber);
    for (const int64_t rows : {7, 40, 2}) {
      const Tensors inputs = {on_gpu({rows, 3}, dtype), on_gpu({rows, 3}, dtype)};
      check_same(with_gradients(f, inputs), with_gradients(huber, inputs));
    }
    CHECK_MESSAGE(says(f, "  together: sub, abs, square, "), f.explain());
    CHECK_MESSAGE(says(f, "neg, where, exp (one kernel for compute_80)\n"), f.explain());
    const Tensors inputs = {on_gpu({9, 3}, dtype), on_gpu({9, 3}, dtype)};
    const uint64_t before = cuda::counters().launches;
    f(inputs);
    CHECK(cuda::counters().launches == before + 1);
    // Both in another order in memory, and at an address that no packet may have.
    const Tensor columns = on_gpu({3, 8}, dtype).t(), other = on_gpu({3, 8}, dtype).t();
    check_same(with_gradients(f, {columns, other}), with_gradients(huber, {columns, other}));
    const Tensor odd = view(narrow(on_gpu({34}, dtype), 0, 1, 33), {11, 3});
    check_same(
        with_gradients(f, {odd, inputs[0].narrow(0, 0, 1).expand({11, 3}).contiguous()}),
        with_gradients(huber, {odd, inputs[0].narrow(0, 0, 1).expand({11, 3}).contiguous()}));
    CHECK_MESSAGE(!says(f, "one by one"), f.explain());
  }
}

TEST_CASE("fused groups: what is no kernel runs op by op, and explain() says why" *
          test::nvrtc_case()) {
  manual_seed(4);
  const jit::CompiledFunction f = jit::compile(huber);
  const Tensors inputs = {on_gpu({6, 3}, kF32), on_gpu({3}, kF32)};
  check_same(with_gradients(f, inputs), with_gradients(huber, inputs));
  CHECK_MESSAGE(
      says(f, "(one by one: operands are broadcast, or have gaps or other orders in memory)"),
      f.explain());
  const auto loss = [](const Tensors& t) { return Tensors{mean(square(t[0] - t[1]))}; };
  const jit::CompiledFunction compiled = jit::compile(loss);
  const Tensors pair = {on_gpu({6, 3}, kF32), on_gpu({6, 3}, kF32)};
  check_same(with_gradients(compiled, pair), with_gradients(loss, pair));
  CHECK_MESSAGE(
      says(compiled, "together: sub, square, mean (one kernel for compute_80, then mean)"),
      compiled.explain());
}

TEST_CASE("fused groups: the backward pass launches no more than that of the ops" *
          test::nvrtc_case()) {
  manual_seed(6);
  struct Example {
    const char* about;
    std::function<Tensors(const Tensors&)> f;
    Tensors inputs;  // the first and the last want a gradient
    std::string way;
    uint64_t launches;  // of the group's backward pass, with the ops behind the group
  };
  const Tensor x = on_gpu({6, 5}, kF32), y = on_gpu({6, 5}, kF32);
  const Example examples[] = {
      {"a number wants a gradient",
       [](const Tensors& t) { return Tensors{exp(t[0] * t[1])}; },
       {x, on_gpu({}, kF32)},
       "one by one: the gradient of a number is a sum",
       0},
      {"a gradient is expanded along one dimension",
       [](const Tensors& t) { return Tensors{mean(exp(t[0] * t[1]), {1})}; },
       {x, y},
       "one kernel for compute_80",
       3},  // dy / 5, its copy, the kernel
      {"gradients that are passed on",
       [](const Tensors& t) { return Tensors{t[0] + t[1] + t[2]}; },
       {x, y, on_gpu({6, 5}, kF32)},
       "one kernel for compute_80",
       0},
  };
  for (const Example& example : examples) {
    CAPTURE(example.about);
    const auto backward = [&](const std::function<Tensors(const Tensors&)>& f) {
      Tensors leaves;
      for (const Tensor& t : example.inputs) leaves.push_back(t.detach());
      leaves.front().requires_grad_();
      leaves.back().requires_grad_();
      const Tensor z = f(leaves)[0], dz = test::on_device(ones(z.shape()));
      const uint64_t before = cuda::counters().launches;
      const Tensors dx = lathe::grad({z}, {leaves.front(), leaves.back()}, {.grad_outputs = {dz}});
      const uint64_t launches = cuda::counters().launches - before;
      return std::pair(launches, Tensors{z.detach(), dx[0], dx[1]});
    };
    const jit::CompiledFunction compiled = jit::compile(example.f);
    backward(compiled);  // loads the kernels
    const auto got = backward(compiled), want = backward(example.f);
    check_same(got.second, want.second);
    CHECK_MESSAGE(says(compiled, "(" + example.way + ")"), compiled.explain());
    CHECK(got.first <= want.first);
    if (example.way.starts_with("one kernel")) CHECK(got.first == example.launches);
  }
}

TEST_CASE("fused groups: a long one is several kernels; none where they are switched off" *
          test::nvrtc_case()) {
  const auto f = [](const Tensors& t) {
    Tensor y = t[0];
    for (int k = 0; k < 35; ++k) y = relu(y + t[0]);
    return Tensors{y};
  };
  const Tensor x = on_gpu({5, 3}, kF32), want = f({x})[0];
  const jit::CompiledFunction compiled = jit::compile(f);
  const auto launches = [&] {
    const uint64_t before = cuda::counters().launches;
    CHECK(same_bits(compiled({x})[0], want));
    return cuda::counters().launches - before;
  };
  launches();  // traces
  CHECK(launches() == 2);
  CHECK(jit::fused_kernels());
  jit::set_fused_kernels(false);
  CHECK(launches() == 70);
  CHECK_MESSAGE(says(compiled, "(one by one: fused kernels are off)"), compiled.explain());
  jit::set_fused_kernels(true);
  CHECK(launches() == 2);
}

TEST_CASE("fused groups: a captured graph holds a kernel that was loaded before, else the ops" *
          test::nvrtc_case()) {
  const auto program = small_program({19});
  const Tensor x = on_gpu({19}, kF32), want = test::on_host(x * x + x);
  std::string way;
  for (const char* const expected :
       {"one by one: not compiled before a CUDA graph was captured", "one kernel for compute_80"}) {
    cuda::Graph graph;
    Tensor y;
    graph.capture([&] { y = jit::run_pointwise(program, {x}, &way)[0]; });
    CHECK(way == expected);
    graph.launch();
    CHECK(same_bits(test::on_host(y), want));
    CHECK(same_bits(test::on_host(jit::run_pointwise(program, {x}, &way)[0]), want));
    CHECK(way == "one kernel for compute_80");
  }
}

TEST_SUITE_END();
