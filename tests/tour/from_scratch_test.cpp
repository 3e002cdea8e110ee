// examples/from_scratch.cpp, which knows no Lathe, against the same network with Lathe: loss, every
// gradient and every parameter of thirty steps, to 1e-12.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "lathe/lathe.h"

#define main from_scratch_main  // the program's own, which prints
#include "../../examples/from_scratch.cpp"
#undef main

namespace lathe::test {
namespace {

struct Net : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 2, 3, {.kernel = 3, .pad = 1, .bias = false}};
  nn::BatchNorm2d bn1{*this, "bn1", 3};
  nn::Conv2d conv2{*this, "conv2", 3, 5, {.kernel = 3, .pad = 1, .bias = false}};
  nn::Linear fc{*this, "fc", 5, 3};

  Tensor forward(const Tensor& x) override {
    const Tensor h = lathe::relu(conv2(lathe::relu(bn1(conv1(x)))));
    return fc(h.mean({2, 3}));
  }
};

/// The numbers of another program in the shape of `like`.
Tensor shaped(const from_scratch::Numbers& numbers, const Tensor& like) {
  return tensor(numbers).reshape(like.shape());
}

/// The largest difference in units of the largest number, or of 1 where all are smaller.
double difference(const Tensor& ours, const from_scratch::Numbers& theirs) {
  const std::vector<double> values = ours.to_vector<double>();
  REQUIRE(values.size() == theirs.size());
  double largest = 1, difference = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(theirs[i]));
    difference = std::max(difference, std::abs(values[i] - theirs[i]));
  }
  return difference / largest;
}

TEST_CASE("from_scratch: loss, gradients and parameters are Lathe's to 1e-12 for thirty steps") {
  const from_scratch::Batch batch;
  from_scratch::Net theirs;
  Net ours;
  ours.to(kF64);
  const auto named = ours.named_parameters();
  const auto parameters = theirs.parameters();
  REQUIRE(named.size() == parameters.size());
  for (size_t i = 0; i < named.size(); ++i) {
    REQUIRE(named[i].first == parameters[i]->name);
    const NoGrad off;
    named[i].second.copy_(shaped(parameters[i]->value, named[i].second));
  }
  const Tensor x = tensor(batch.x).reshape({4, 2, 6, 6}), y = tensor(batch.labels);
  optim::SGD opt(ours.parameters(), {.lr = from_scratch::kLr,
                                     .momentum = from_scratch::kMomentum,
                                     .weight_decay = from_scratch::kDecay});
  for (int step = 0; step < 30; ++step) {
    const double their_loss = theirs.forward_and_backward(batch.x, batch.labels);
    opt.zero_grad();
    const Tensor loss = cross_entropy(ours(x), y);
    loss.backward();
    CHECK(std::abs(loss.item<double>() - their_loss) < 1e-12);
    for (size_t i = 0; i < named.size(); ++i) {
      CAPTURE(step);
      CAPTURE(named[i].first);
      CHECK(difference(named[i].second.grad(), parameters[i]->grad) < 1e-12);
    }
    theirs.step(from_scratch::kLr, from_scratch::kMomentum, from_scratch::kDecay);
    opt.step();
    for (size_t i = 0; i < named.size(); ++i)
      CHECK(difference(named[i].second, parameters[i]->value) < 1e-12);
  }
}

}  // namespace
}  // namespace lathe::test
