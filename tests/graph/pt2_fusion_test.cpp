// Norm, relu, residual and convolution of a program as one op. The models are those of
// pt2_golden_fusions.py, which PyTorch's numbers check in pt2_test.cpp.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/meta.h"
#include "lathe/autograd/node.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/resnet.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/tests/cuda_case.h"
#include "lathe/tests/graph/pt2_files.h"
#include "lathe/tests/own_launches.h"

using namespace lathe;
using doctest::Contains;
using testing::pt2_argument;
using testing::pt2_file;
using testing::pt2_node;
using testing::pt2_program;
using testing::pt2_tensor;

namespace {

jit::Program loaded(const std::string& name) {
  return jit::load_program((std::filesystem::path(LATHE_GOLDEN_PT2) / (name + ".pt2")).string());
}

Tensor images(const Shape& shape) {
  manual_seed(1);
  return randn(shape).contiguous(kChannelsLast);
}

/// How often each op was recorded for these results.
std::map<std::string, int> ops_of(const Tensors& results) {
  std::map<std::string, int> counts;
  std::set<const autograd::Node*> seen;
  std::vector<const autograd::Node*> open;
  const auto add = [&](const autograd::Node* node) {
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  for (const Tensor& y : results) add(y.impl().meta->grad_fn.get());
  while (!open.empty()) {
    const autograd::Node* const node = open.back();
    open.pop_back();
    ++counts[node->name];
    for (const autograd::Edge& edge : node->edges) add(edge.node.get());
  }
  return counts;
}

/// Hooks at all modules keep the steps apart.
void keep_apart(jit::Program& model) {
  for (auto& [name, module] : model.named_modules()) {
    if (!name.empty())
      module->register_call_hook([](nn::Module&, const Tensors&, const Tensors&) {});
  }
}

/// pt2_golden_fusions.py's Fused.
struct SameModel : nn::Module {
  SameModel() { adopt(block, "block"); }
  Tensor forward(const Tensor& x) override {
    const Tensor y = block(norm.relu(stem(x)));
    return mean(last.add_relu(y, y), {2, 3});
  }

  nn::Conv2d stem{*this, "stem", 3, 16, {.kernel = 3, .pad = 1, .bias = false}};
  nn::BatchNorm2d norm{*this, "norm", 16};
  nn::BasicBlock block{16, 24, 1};
  nn::BatchNorm2d last{*this, "last", 24, {.eps = 1e-3, .momentum = 0.3}};
};

Tensors results_of(nn::Module& model, const Tensor& x) {
  auto* const program = dynamic_cast<jit::Program*>(&model);
  return program == nullptr ? Tensors{model(x)} : program->run({x});
}

/// Results, buffers and gradients of a call.
std::map<std::string, Tensor> outcome(nn::Module& model, const Tensor& x) {
  std::map<std::string, Tensor> out;
  const Tensors results = results_of(model, x);
  Tensor loss = zeros({});
  for (size_t i = 0; i < results.size(); ++i) {
    out.emplace(std::to_string(i), results[i].detach());
    loss = loss + results[i].square().mean();
  }
  model.zero_grad();
  loss.backward();
  for (const auto& [name, p] : model.named_parameters()) {
    if (p.grad().defined()) out.emplace("gradient of " + name, p.grad());
  }
  for (const auto& [name, b] : model.named_buffers()) out.emplace(name, b.clone());
  return out;
}

void check_same(const std::map<std::string, Tensor>& got,
                const std::map<std::string, Tensor>& want) {
  REQUIRE(got.size() == want.size());
  for (const auto& [name, value] : want) {
    CAPTURE(name);
    CHECK(equal(got.at(name), value));
  }
}

}  // namespace

TEST_CASE("pt2: norm, relu, residual and convolution are one op, with the bits of single ops") {
  const Tensor x = images({4, 3, 8, 8});
  jit::Program model = loaded("fused"), apart = loaded("fused");
  keep_apart(apart);
  auto counts = ops_of(model.run({x}));
  CHECK(counts["batch_norm_relu"] == 1);
  CHECK(counts["batch_norm_relu_conv2d"] == 1);
  CHECK(counts["batch_norm_add_relu"] == 2);
  CHECK(counts["batch_norm"] == 1);  // of the shortcut
  CHECK(counts["relu"] == 0);
  counts = ops_of(apart.run({x}));
  CHECK(counts["batch_norm"] == 5);
  CHECK(counts["relu"] == 4);
  CHECK(counts["conv2d"] == 4);
  check_same(outcome(model, x), outcome(apart, x));

  model.eval();
  apart.eval();
  counts = ops_of(model.run({x}));
  CHECK(counts["batch_norm_relu"] == 2);  // no op takes a convolution in evaluation
  CHECK(counts["batch_norm_add_relu"] == 2);
  check_same(outcome(model, x), outcome(apart, x));
}

TEST_CASE("pt2: a program has the bits of the same model made of nn's layers") {
  jit::Program program = loaded("fused");
  SameModel model;
  model.load_state_dict(program.state_dict());
  check_same(outcome(program, images({4, 3, 8, 8})), outcome(model, images({4, 3, 8, 8})));
}

TEST_CASE("pt2: on a GPU a program launches as many kernels as nn's layers" * test::cuda_case()) {
  jit::Program program = loaded("fused");
  SameModel model;
  model.load_state_dict(program.state_dict());
  const Device gpu(DeviceType::kCUDA);
  const Tensor x = images({4, 3, 8, 8}).to(gpu);
  const auto launches = [&](nn::Module& of) {
    of.to(gpu).to(kChannelsLast);
    const auto step = [&] {
      const Autocast half(gpu);
      of(x).square().mean().backward();
    };
    step();
    of.zero_grad();
    return test::own_launches(step);
  };
  CHECK(launches(program) == launches(model));
}

TEST_CASE("pt2: steps stay apart where something else needs what is between them") {
  const Tensor x = images({3, 4, 5, 6});
  jit::Program model = loaded("not_fused"), apart = loaded("not_fused");
  keep_apart(apart);
  auto counts = ops_of(model.run({x}));
  CHECK(counts["batch_norm_relu"] == 4);
  CHECK(counts["batch_norm_add_relu"] == 1);
  CHECK(counts["batch_norm_relu_conv2d"] == 0);
  CHECK(counts["conv2d"] == 2);
  apart.run({x});
  check_same(outcome(model, x), outcome(apart, x));
}

TEST_CASE("pt2: a norm in evaluation, and a hook at one module, keep what is fused elsewhere") {
  const Tensor x = images({4, 3, 8, 8});
  jit::Program model = loaded("fused"), apart = loaded("fused");
  keep_apart(apart);
  for (jit::Program* const program : {&model, &apart}) {
    for (auto& [name, module] : program->named_modules()) {
      if (name == "block.bn1") module->eval();
    }
  }
  auto counts = ops_of(model.run({x}));
  CHECK(counts["batch_norm_relu_conv2d"] == 0);
  CHECK(counts["batch_norm_add_relu"] == 2);
  apart.run({x});
  check_same(outcome(model, x), outcome(apart, x));

  jit::Program watched = loaded("fused"), plain = loaded("fused");
  Tensor result;
  for (auto& [name, module] : watched.named_modules()) {
    if (name != "block.bn2") continue;
    module->register_call_hook(
        [&](nn::Module&, const Tensors&, const Tensors& out) { result = out[0].clone(); });
  }
  counts = ops_of(watched.run({x}));
  CHECK(counts["batch_norm_add_relu"] == 1);
  CHECK(counts["batch_norm_relu_conv2d"] == 1);
  CHECK(result.min().item<float>() < 0);  // before the relu
  plain.run({x});
  check_same(outcome(watched, x), outcome(plain, x));
}

TEST_CASE("pt2: an error of a fused norm names the norm") {
  const auto node = [](const char* target, const std::string& arguments, const char* result,
                       int line) {
    return pt2_node(
        target, arguments, result,
        concat(R"({"stack_trace":"File \"/x/net.py\", line )", line, R"(, in forward"})"));
  };
  const std::string norm =
      node("aten.batch_norm.default",
           concat(pt2_tensor("input", "x"), ",", pt2_argument("training", R"({"as_bool":true})")),
           "n", 7);
  const std::string file = pt2_file(pt2_program(
      concat(norm, ",", node("aten.relu.default", pt2_tensor("self", "n"), "y", 8)), "y"));
  jit::Program model = jit::load_program(std::as_bytes(std::span(file)), "m.pt2");
  CHECK(ops_of({model(ones({3, 2}).requires_grad_())})["batch_norm_relu"] == 1);
  CHECK_THROWS_WITH_AS(model(ones({1, 2})), Contains("net.py, line 7, in forward"), ShapeError);
}

TEST_CASE("pt2: a norm does not wait for a relu behind a write into what shares its memory") {
  const std::string nodes = concat(
      pt2_node("aten.batch_norm.default",
               concat(pt2_tensor("input", "x"), ",", pt2_tensor("weight", "b_scale"), ",",
                      pt2_argument("training", R"({"as_bool":true})")),
               "n"),
      ",",
      pt2_node(
          "aten.mul_.Tensor",
          concat(pt2_tensor("self", "b_same"), ",", pt2_argument("other", R"({"as_float":3.0})")),
          "m"),
      ",", pt2_node("aten.relu.default", pt2_tensor("self", "n"), "y"));
  const std::string file = pt2_file(
      pt2_program(nodes, "y", "8",
                  testing::pt2_buffer_spec("scale") + testing::pt2_buffer_spec("same"),
                  testing::pt2_buffer_type("scale", "2") + testing::pt2_buffer_type("same", "2")),
      {{},
       {.name = "scale", .sizes = "2", .strides = "1"},
       {.name = "same", .sizes = "2", .strides = "1"}});
  jit::Program model = jit::load_program(std::as_bytes(std::span(file)), "m.pt2");
  const Tensor x = tensor({{1.f, -1.f}, {2.f, 0.5f}});
  const Tensor scale = model.state_dict()["scale"].clone();
  CHECK(equal(model(x), relu(batch_norm(x, scale, {}, {}, {}, {.training = true}))));
  CHECK(equal(model.state_dict()["scale"], scale * 3));
}
