// RecordedGraph: nodes, where their inputs come from, what they keep, and norms of gradients.
#include "lathe/autograd/recorded_graph.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "lathe/autograd/custom_function.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/embedding.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using autograd::GraphRecorder;
using autograd::RecordedGraph;

namespace {

std::string ops_of(const RecordedGraph& graph) {
  std::string text;
  for (const auto& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op;
  return text;
}

double norm_of(const Tensor& t) {
  double sum = 0;
  for (const float v : t.to_vector<float>()) sum += double{v} * v;
  return std::sqrt(sum);
}

/// (2a, a + b)
struct Pairs : CustomFunction<Pairs> {
  using Context = FunctionContext;
  static Tensors forward(Context& context, const Tensor& a, const Tensor& b) {
    context.save_for_backward({b});
    return {a * 2, a + b};
  }
  static Tensors backward(Context&, const Tensors& dy) { return {dy[0] * 2 + dy[1], dy[1]}; }
};

}  // namespace

TEST_CASE("recorded graph: nodes in order, and where their inputs come from") {
  const Tensor x = randn({4, 3}), w = randn({3, 2}).requires_grad_();
  const GraphRecorder recorder;
  const Tensor y = relu(matmul(x, w));
  const Tensor unused = exp(y);
  const Tensor scaled = y * w.detach()[0], decay = sum(w);
  const Tensor loss = sum(scaled + decay);
  const RecordedGraph graph = recorder.graph({loss});
  CHECK(ops_of(graph) == "matmul relu mul sum add sum");  // exp leads to no loss
  REQUIRE(graph.leaves.size() == 1);
  CHECK(graph.leaves[0].handle() == w.handle());
  const auto& product = graph.nodes[0];
  REQUIRE(product.inputs.size() == 2);
  CHECK_FALSE(product.inputs[0].wants_gradient());
  CHECK(product.inputs[0].shape == Shape{4, 3});
  CHECK(product.inputs[1].leaf == 0);
  CHECK(product.shape == Shape{4, 2});
  CHECK(graph.nodes[1].inputs[0].node == 0);
  CHECK(graph.nodes[2].inputs[0].node == 1);
  CHECK(graph.nodes[3].inputs[0].leaf == 0);
  CHECK(graph.nodes[4].inputs[0].node == 2);
  CHECK(graph.nodes[4].inputs[1].node == 3);
}

TEST_CASE("recorded graph: what is kept counts once") {
  const Tensor x = randn({4, 3}).requires_grad_(), w = randn({3, 2}).requires_grad_();
  const GraphRecorder recorder;
  const Tensor h = matmul(neg(x), w), y = relu(h);
  const RecordedGraph graph = recorder.graph({sum(y * y)});
  CHECK(ops_of(graph) == "neg matmul relu mul sum");
  const auto& product = graph.nodes[1];  // keeps -x and w; w is there anyway
  REQUIRE(product.saved.size() == 2);
  CHECK(product.saved[0].input == 0);
  CHECK(product.saved[0].bytes == 48);
  CHECK_FALSE(product.saved[0].shared);
  CHECK(product.saved[1].input == 1);
  CHECK(product.saved[1].shared);
  CHECK(product.saved_bytes() == 48);
  const auto& activation = graph.nodes[2];  // keeps its own result
  REQUIRE(activation.saved.size() == 1);
  CHECK(activation.saved[0].output);
  CHECK(activation.saved[0].input == -1);
  CHECK(activation.saved_bytes() == 32);
  CHECK(graph.nodes[3].saved_bytes() == 0);  // y twice, which relu keeps already
  CHECK(graph.nodes[3].saved.size() == 2);
  CHECK(graph.nodes[4].saved.empty());
  CHECK(graph.saved_bytes() == 48 + 32);
}

TEST_CASE("recorded graph: norms of gradients are those of retained ones") {
  const Tensor x = randn({5, 4}), w = randn({4, 3}).requires_grad_();
  const auto step = [&] {
    const Tensor h = matmul(x, w), y = tanh(h);
    h.retain_grad();
    y.retain_grad();
    const Tensor loss = sum(y * y * y);
    loss.backward();
    return Tensors{loss, h, y};
  };
  const Tensors plain = step();
  const Tensor plain_grad = w.grad().clone();
  w.set_grad(Tensor());
  const GraphRecorder recorder;
  const Tensors watched = step();
  const RecordedGraph graph = recorder.graph({watched[0]});  // after backward()
  CHECK(ops_of(graph) == "matmul tanh mul mul sum");
  REQUIRE(graph.nodes[0].gradient_norm);
  CHECK(*graph.nodes[0].gradient_norm == doctest::Approx(norm_of(watched[1].grad())));
  CHECK(*graph.nodes[1].gradient_norm == doctest::Approx(norm_of(watched[2].grad())));
  CHECK(*graph.nodes[4].gradient_norm == 1);
  CHECK(w.grad().to_vector<float>() == plain_grad.to_vector<float>());
  CHECK(watched[1].grad().to_vector<float>() == plain[1].grad().to_vector<float>());
}

TEST_CASE("recorded graph: layers, calls, and ops that are parts of others") {
  struct Net : nn::Module {
    nn::Linear head{*this, "head", 3, 2};
    Tensor forward(const Tensor& x) override { return head(x); }
  } net;
  const Tensor table = randn({7, 3}).requires_grad_();
  const GraphRecorder recorder;
  const Tensor rows = embedding(table, tensor({1, 4}));
  const RecordedGraph graph = recorder.graph({sum(net(rows))});
  REQUIRE(ops_of(graph) == "index_select linear sum");
  CHECK(graph.nodes[0].called == "embedding");
  CHECK(graph.nodes[0].layer.empty());
  CHECK(graph.nodes[1].called.empty());
  CHECK(graph.nodes[1].layer == "Net.head");
  CHECK(graph.nodes[2].layer.empty());
  CHECK(graph.nodes[0].stack.size() > 3);
}

TEST_CASE("recorded graph: an op with several outputs is one node") {
  const Tensor a = randn({3}).requires_grad_(), b = randn({3});
  const GraphRecorder recorder;
  const Tensors two = Pairs::apply(a, b);
  const Tensor tripled = two[0] * 3, first = sum(tripled), second = sum(two[1]);
  const Tensor loss = first + second;
  loss.backward();
  const RecordedGraph graph = recorder.graph({loss});
  CHECK(ops_of(graph) == "Pairs mul sum sum add");
  CHECK(graph.nodes[0].shape == Shape{3});
  CHECK(graph.nodes[1].inputs[0].node == 0);
  CHECK(graph.nodes[3].inputs[0].node == 0);
  // dL/d(outputs) = 3, 3, 3 and 1, 1, 1
  CHECK(*graph.nodes[0].gradient_norm == doctest::Approx(std::sqrt(30.0)));
}

TEST_CASE("recorded graph: without a recorder at the time only the structure is known") {
  const Tensor w = randn({3}).requires_grad_();
  const Tensor loss = sum(w * w);
  const GraphRecorder recorder;
  const RecordedGraph graph = recorder.graph({loss});
  CHECK(ops_of(graph) == "mul sum");
  CHECK(graph.nodes[0].inputs[1].leaf == 0);
  CHECK(graph.nodes[0].saved.empty());
  CHECK_FALSE(graph.nodes[0].gradient_norm);
  CHECK(recorder.graph({w}).nodes.empty());
  const NoGrad off;
  CHECK(recorder.graph({w + 1}).nodes.empty());
}
