// UnusedGraph: an evaluation without NoGrad is found at its own lines, sound programs are not.
// Compiled with line numbers.
#include "lathe/core/debug/unused_graph.h"

#include <doctest/doctest.h>

#include <vector>

#include "lathe/core/hooks/stack.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/lathe.h"

namespace program {  // not of the library

using lathe::Tensor;

struct Net {
  Tensor weight = lathe::ones({2}).requires_grad_();
  [[gnu::noinline]] Tensor forward(const Tensor& x) const {
    const Tensor y = lathe::exp(x * weight);  // two ops
    asm volatile("" : : : "memory");          // no tail call
    return y;
  }
};

[[gnu::noinline]] void train(const Net& net, const Tensor& x) {
  const Tensor loss = lathe::sum(net.forward(x));
  loss.backward();
}

constexpr int kLineOfModel = __LINE__ + 2;
[[gnu::noinline]] double evaluate(const Net& net, const Tensor& x) {
  const Tensor y = net.forward(x);
  const Tensor loss = lathe::mean(y);
  asm volatile("" : : : "memory");
  return loss.item<float>();
}

constexpr int kLineOfEvaluation = __LINE__ + 2;
[[gnu::noinline]] void only_evaluate(const Net& net, const Tensor& x) {
  evaluate(net, x);
  asm volatile("" : : : "memory");
}

/// The model below as many further frames, as inside a framework of layers.
[[gnu::noinline]] Tensor deep(const Net& net, const Tensor& x, int frames) {
  const Tensor y = frames == 0 ? net.forward(x) : deep(net, x, frames - 1);
  asm volatile("" : : : "memory");
  return y;
}

constexpr int kFrames = 90;
constexpr int kLineOfDeepEvaluation = __LINE__ + 2;
[[gnu::noinline]] void evaluate_deep(const Net& net, const Tensor& x) {
  deep(net, x, kFrames);
  asm volatile("" : : : "memory");
}

}  // namespace program

namespace lathe::debug {
namespace {

const bool kLinesAreKnown = !profile::line_reader().empty();

TEST_CASE("unused graph: an evaluation without NoGrad, at the line that calls the model") {
  const program::Net net;
  const Tensor x = ones({2});
  const UnusedGraph scope;
  for (int step = 0; step < 3; ++step) {
    program::train(net, x);
    program::evaluate(net, x);
  }
  const std::vector<UnusedPlace> places = scope.places();
  REQUIRE(places.size() == 2);
  CHECK(places[0].ops == 6);  // mul and exp, three times
  CHECK(places[0].first == "mul");
  CHECK(places[1].ops == 3);
  CHECK(places[1].first == "mean");
  if (!kLinesAreKnown) return;
  CHECK(places[0].file.ends_with("unused_graph_test.cpp"));
  CHECK(places[0].line == program::kLineOfModel);
  CHECK(places[1].line == program::kLineOfModel + 1);
  const std::string line = scope.text().substr(0, scope.text().find('\n'));
  CHECK_MESSAGE(
      line.starts_with("6 ops were recorded for a backward pass that never came, from mul "
                       "on, called at unused_graph_test.cpp:"),
      line);
}

TEST_CASE("unused graph: a program that only evaluates, at the line that all ops have in common") {
  const program::Net net;
  const UnusedGraph scope;
  program::only_evaluate(net, ones({2}));
  const std::vector<UnusedPlace> places = scope.places();
  REQUIRE(places.size() == 1);
  CHECK(places[0].ops == 3);
  if (kLinesAreKnown) CHECK(places[0].line == program::kLineOfEvaluation);
}

TEST_CASE("unused graph: an evaluation whose model runs below many frames") {
  const program::Net net;
  const Tensor x = ones({2});
  const UnusedGraph scope;
  sum(program::deep(net, x, program::kFrames)).backward();
  program::evaluate_deep(net, x);
  const std::vector<UnusedPlace> places = scope.places();
  REQUIRE(places.size() == 1);
  CHECK(places[0].ops == 2);
  if (kLinesAreKnown) CHECK(places[0].line == program::kLineOfDeepEvaluation);
}

TEST_CASE("unused graph: nothing to say of training, nor of an evaluation with NoGrad") {
  const program::Net net;
  const Tensor x = ones({2});
  {
    const UnusedGraph scope;
    program::train(net, x);
    const NoGrad off;
    program::evaluate(net, x);
    CHECK(scope.places().empty());
    CHECK(scope.text().empty());
  }
  CHECK_FALSE(profile::watched());
}

TEST_CASE("unused graph: a part computed again, and a backward pass that is still to come") {
  const Tensor w = ones({2}).requires_grad_();
  const UnusedGraph scope;
  const Tensor y = checkpoint([](const Tensors& in) { return exp(in[0]); }, {w});
  const Tensor loss = sum(y);
  CHECK(scope.places().size() == 1);
  loss.backward();
  CHECK(scope.places().empty());
}

TEST_CASE("unused graph: a result that is recorded beside the loss") {
  const Tensor w = ones({2}).requires_grad_();
  const UnusedGraph scope;
  const Tensor scores = exp(w);
  const Tensor shares = softmax(scores, 0);  // for a table, say
  sum(scores).backward();
  const std::vector<UnusedPlace> places = scope.places();
  REQUIRE(places.size() == 1);
  CHECK(places[0].ops == 1);
  CHECK(places[0].first == "softmax");
  CHECK(scope.text().starts_with("1 op was recorded"));
}

}  // namespace
}  // namespace lathe::debug
