// Plans of groups of pointwise ops: each op has its kernel, alone and in its gradient, and gives
// the op's bits.
#include "lathe/graph/fused/pointwise_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/format.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/fused/pointwise_gradient.h"
#include "lathe/graph/op_table.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/views.h"
#include "lathe/tests/graph/every_op.h"

using namespace lathe;

namespace {

constexpr int64_t kSize = 33001;  // more than a chunk, and no multiple of a piece

/// The calls of pointwise ops in every_op_text(), each twice as a group, for vectors.
std::vector<std::string> pointwise_calls() {
  std::vector<std::string> calls;
  const jit::Graph all = jit::parse(testing::every_op_text(true));
  const std::string text = all.text();
  for (const jit::Node& node : all.nodes) {
    if (!node.op->pointwise) continue;
    const std::string name = "\n%" + all.values[static_cast<size_t>(node.output)].name + ": ";
    const size_t begin = text.find(name) + name.size();
    std::string call = text.substr(begin, text.find('\n', begin) - begin);
    call.replace(call.find("2,3,4,4"), 7, "N");
    const size_t mask = call.find('%', 0);
    // Of where and masked_fill the mask is a value that another call made.
    for (size_t at = mask; at != std::string::npos; at = call.find('%', at + 1)) {
      if (call[at + 1] != 'x') call.replace(at, call.find_first_of(",)", at) - at, "%m");
    }
    calls.push_back(call);
  }
  return calls;
}

jit::Graph group_of(const std::string& call, bool fused) {
  const std::string group = fused ? " {1}" : "";
  return jit::parse(
      "lathe graph 1\ninput %x0: f32[N]\ninput %x1: f32[N]\ninput %m: bool[N]\n"
      "const @c0: f32[] = 2.0\n%0: " +
      call + group + "\n%1: " + call + group + "\noutput %0, %1\n");
}

Tensors inputs_for_calls() {
  manual_seed(11);
  Tensor x = rand({kSize}), y = rand({kSize});
  y.slice(0, 0, kSize, 7).copy_(x.slice(0, 0, kSize, 7));  // ties
  return {x, y, gt(rand({kSize}), 0.5)};
}

bool same_bits(const Tensor& a, const Tensor& b) {
  const auto bytes = static_cast<size_t>(a.numel()) * size_of(a.dtype());
  return a.shape() == b.shape() && a.dtype() == b.dtype() && a.is_contiguous() &&
         b.is_contiguous() && std::memcmp(a.raw_data(), b.raw_data(), bytes) == 0;
}

/// Ops that are made of several, or do nothing but copy, or are too long for a fused kernel.
const std::vector<std::string> kWithoutKernel = {
    "clone",       "hardsigmoid", "hardswish", "hardtanh", "logical_not", "logsigmoid",
    "mish",        "relu6",       "selu",      "softplus", "softsign",    "div",
    "masked_fill", "lgamma",      "digamma",   "erfinv",   "polygamma"};

bool has_kernel(const jit::Node& node) {
  const bool form =
      (node.op->name == "div" || node.op->name == "masked_fill") ? node.attributes.empty() : false;
  return form || std::ranges::find(kWithoutKernel, node.op->name) == kWithoutKernel.end();
}

jit::PointwiseProgram program_of(const jit::Node& node, DType dtype, int inputs) {
  jit::PointwiseProgram program{.shape = {kSize}, .inputs = inputs, .steps = {}, .results = {0}};
  program.steps.push_back({node.op, {}, node.attributes, dtype});
  for (const int input : node.inputs) program.steps[0].operands.push_back(input);
  return program;
}

}  // namespace

TEST_CASE("plan: every pointwise op that is one kernel has it, and in its gradient") {
  using Kind = jit::InputForm::Kind;
  const jit::InputForms forms = {
      {kF32, Kind::kFull}, {kF32, Kind::kFull}, {kBool, Kind::kFull}, {kF32, Kind::kZeroDim}};
  const std::vector<bool> wanted = {true, true, false, false};
  // Their gradients are zero everywhere, or that of a kind that no input of a group is.
  const std::vector<std::string> kWithoutGradient = {"floor", "ceil", "round", "trunc",
                                                     "sign",  "cast", "fmod",  "remainder"};
  for (const std::string& call : pointwise_calls()) {
    CAPTURE(call);
    const jit::Graph graph = group_of(call, true);
    const jit::Node& node = graph.nodes[0];
    const DType dtype = graph.values[static_cast<size_t>(node.output)].type.dtype;
    jit::PointwiseProgram program = program_of(node, dtype, 4);
    for (int& operand : program.steps[0].operands) {
      const std::string& name = graph.values[static_cast<size_t>(operand)].name;
      operand = name == "x0" ? 0 : name == "x1" ? 1 : name == "m" ? 2 : 3;
    }
    CHECK(jit::PointwisePlan::of(program, forms).has_value() == has_kernel(node));
    const auto lacks = [&](const std::string& op) { return op == node.op->name; };
    if (dtype != kF32 || std::ranges::any_of(kWithoutGradient, lacks) || !has_kernel(node))
      continue;
    CHECK(jit::gradient_of(program, wanted, forms, {{kF32, Kind::kFull}}) != nullptr);
  }
}

TEST_CASE("plan: every pointwise op has its own bits in a group, and so has its gradient") {
  const Tensors inputs = inputs_for_calls();
  for (const std::string& call : pointwise_calls()) {
    CAPTURE(call);
    Tensors values[2], gradients[2];
    for (const bool fused : {false, true}) {
      Tensors given;
      for (const Tensor& t : inputs) given.push_back(t.detach());
      given[0].requires_grad_();
      given[1].requires_grad_();
      const jit::Graph graph = group_of(call, fused);
      values[fused] = graph.run(given);
      if (!values[fused][0].requires_grad()) continue;
      gradients[fused] = lathe::grad(values[fused], {given[0], given[1]},
                                     {.grad_outputs = {inputs[1].to(values[fused][0].dtype()),
                                                       inputs[0].to(values[fused][0].dtype())},
                                      .allow_unused = true});
    }
    for (size_t i = 0; i < 2; ++i) CHECK(same_bits(values[0][i], values[1][i]));
    REQUIRE(gradients[0].size() == gradients[1].size());
    for (size_t i = 0; i < gradients[0].size(); ++i) {
      REQUIRE(gradients[0][i].defined() == gradients[1][i].defined());
      if (gradients[0][i].defined()) CHECK(same_bits(gradients[0][i], gradients[1][i]));
    }
  }
}

TEST_CASE("plan: what inputs it is made for") {
  using Kind = jit::InputForm::Kind;
  const Tensor x = randn({30, 40});
  const auto kinds = [&](const Tensors& inputs) {
    std::vector<Kind> found;
    const auto forms = jit::input_forms({30, 40}, inputs);
    if (forms) {
      for (const jit::InputForm& form : *forms) found.push_back(form.kind);
    }
    return found;
  };
  CHECK(kinds({x, full({}, 2), full({1, 1}, 2), Tensor()}) ==
        std::vector<Kind>{Kind::kFull, Kind::kZeroDim, Kind::kNumber, Kind::kUndefined});
  CHECK(kinds({x.t().contiguous().t()}) == std::vector<Kind>{Kind::kFull});
  CHECK(kinds({x, randn({40, 30}).t()}).empty());            // another order
  CHECK(kinds({randn({30, 80}).narrow(1, 0, 40)}).empty());  // gaps
  CHECK(kinds({x, randn({40})}).empty());                    // rows
  CHECK(kinds({full({}, 2)}).empty());
}
