// Attention as a node of a graph: the bits of the op itself, traced, compiled and written as ONNX.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/compile.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/trace.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"
#include "lathe/tests/data/files.h"

using namespace lathe;
using doctest::Contains;

namespace {

/// query, key, value and a mask of bools, of which the first query sees nothing.
Tensors attention_inputs(int64_t batch) {
  const Tensor seen = gt(randn({batch, 1, 5, 6}), zeros({}));
  return {randn({batch, 4, 5, 8}), randn({batch, 2, 6, 8}), randn({batch, 2, 6, 3}),
          logical_and(seen, gt(arange(5), zeros({}, {.dtype = kI64})).reshape({5, 1}))};
}

/// Every form of mask, for attention_inputs().
std::vector<AttentionOptions> attention_options(const Tensor& seen) {
  const double never = -std::numeric_limits<double>::infinity();
  const Tensor added = randn(seen.shape()).masked_fill(logical_not(seen), never);
  std::vector<AttentionOptions> all = {
      {}, {.causal = true, .scale = 0.7}, {.mask = seen, .causal = true}, {.mask = added}};
  for (AttentionOptions& o : all) o.grouped = true;
  return all;
}

/// A function of attention_inputs(), the mask being the last of them if `o` has one.
auto attention_by(const AttentionOptions& options) {
  return [options](const Tensors& t) {
    AttentionOptions o = options;
    if (o.mask.defined()) o.mask = t[3];
    return Tensors{scaled_dot_product_attention(t[0], t[1], t[2], o)};
  };
}

}  // namespace

TEST_CASE("graph: attention is one node, which has the op's bits under Autocast too") {
  const NoGrad off;
  manual_seed(1);
  const Tensors few = attention_inputs(2), many = attention_inputs(3);
  const size_t count = attention_options(few[3]).size();
  for (size_t n = 0; n < count; ++n) {
    CAPTURE(n);
    Tensors a = few, b = many;
    const AttentionOptions o = attention_options(a[3])[n];
    if (o.mask.defined()) {
      a[3] = o.mask;
      b[3] = attention_options(b[3])[n].mask;
    }
    const auto f = attention_by(o);
    const jit::Graph graph = jit::trace(f, a);
    REQUIRE(graph.nodes.size() == 1);
    CHECK(graph.nodes[0].op->name == "scaled_dot_product_attention");
    CHECK(equal(graph.run(b)[0], f(b)[0]));

    // Of f32 and bf16 Autocast makes one dtype, for which there are tiles.
    a[2] = cast(a[2], kBF16), b[2] = cast(b[2], kBF16);
    const auto in_half = [&](const Tensors& t) {
      const Autocast half(kCPU, kBF16);
      return f(t);
    };
    CHECK(equal(jit::trace(in_half, a).run(b)[0], in_half(b)[0]));
  }
}

TEST_CASE("compile: attention that drops weights draws the numbers of the function itself") {
  manual_seed(2);
  const Tensors in = attention_inputs(2);
  const auto f = attention_by({.causal = true, .dropout = 0.4, .grouped = true});
  const jit::CompiledFunction compiled = jit::compile(f);
  const auto results = [&](auto&& call) {
    manual_seed(3);
    Tensors all;
    for (int step = 0; step < 3; ++step) {
      Tensors leaves;
      for (size_t i = 0; i < 3; ++i) leaves.push_back(in[i].detach().requires_grad_());
      const Tensor y = call(leaves)[0];
      sum(y * y).backward();
      all.push_back(y.detach());
      for (const Tensor& t : leaves) all.push_back(t.grad());
    }
    return all;
  };
  const Tensors want = results(f), got = results(compiled);
  for (size_t i = 0; i < want.size(); ++i) CHECK(equal(got[i], want[i]));
  CHECK_FALSE(equal(want[0], want[4]));
  CHECK(compiled.explain().find("trace: ") == std::string::npos);  // it is a graph
  CHECK_THROWS_WITH_AS(jit::trace(f, {in[0], in[1], in[2]}),
                       Contains("scaled_dot_product_attention draws random numbers"),
                       jit::TraceError);
}

TEST_CASE("onnx export: attention comes back with its masks, for any batch") {
  const NoGrad off;
  const data::testing::TempDir dir;
  manual_seed(4);
  const Tensors few = attention_inputs(2), many = attention_inputs(3);
  const size_t count = attention_options(few[3]).size();
  for (size_t n = 0; n < count; ++n) {
    CAPTURE(n);
    Tensors a = few, b = many;
    const AttentionOptions o = attention_options(a[3])[n];
    if (o.mask.defined()) {
      a[3] = o.mask;
      b[3] = attention_options(b[3])[n].mask;
    }
    const auto f = attention_by(o);
    jit::save_onnx(jit::trace(f, a), dir / "m.onnx");
    const Tensor got = jit::load_onnx(dir / "m.onnx").graph.run(b)[0];
    CHECK(allclose(got, f(b)[0], {.rtol = 1e-5, .atol = 1e-6}));
  }
}
