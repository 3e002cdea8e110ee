// What docs/tour/training.md and recipe.md say of the steps of tiny/main.cpp: the losses behind
// their figures.
#include <doctest/doctest.h>

#include "../../tiny/loader.h"
#include "../../tiny/net.h"
#include "../../tiny/sgd.h"

namespace tiny {
namespace {

struct Change {
  double rate = 0.05, momentum = 0.9;
  double largest_norm = 1e9;  // of all gradients together, for clipping
  bool zero_grad = true;
  int64_t batch_size = 64, classes = 10;
};

void clip(const Net& net, double largest_norm) {
  double squares = 0;
  for (const Tensor& p : net.parameters())
    for (int64_t i = 0; i < p.numel(); ++i) squares += grad(p).data()[i] * grad(p).data()[i];
  const double factor = std::min(1.0, largest_norm / (std::sqrt(squares) + 1e-6));
  for (const Tensor& p : net.parameters())
    p.meta()->grad = map(grad(p), [&](double g) { return factor * g; });
}

/// The loss of each of the first `steps` steps of main.cpp, with a change.
std::vector<double> losses_of(const Change& change, size_t steps) {
  static Dataset set = made_up_images(2000, 1);
  set.classes = change.classes;
  Generator random(0);
  Net net(set.height, set.width, set.classes, random);
  Sgd sgd(net.parameters(), {change.rate, change.momentum, 5e-4});
  Epoch epoch(set, {.batch_size = change.batch_size, .shuffle = true, .seed = 1}, 0);
  std::vector<double> losses;
  while (losses.size() < steps) {
    const std::optional<Batch> batch = epoch.next();
    if (change.zero_grad) sgd.zero_grad();
    const Tensor loss = cross_entropy(net.forward(batch->x, true), batch->labels);
    backward(loss);
    clip(net, change.largest_norm);
    sgd.step();
    losses.push_back(loss.item());
  }
  return losses;
}

void check_losses(const Change& change, const std::vector<double>& expected) {
  const std::vector<double> losses = losses_of(change, expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(losses[i] - expected[i]) < 0.006 + 1e-3 * expected[i]);
  }
}

TEST_CASE("tour, training: a rate of 0.05 triples the loss before it falls") {
  check_losses({}, {2.34, 3.40, 6.78, 7.67, 7.16, 4.88, 3.13, 1.55, 1.03, 0.22, 0.49, 0.49});
}

TEST_CASE("tour, training: a smaller rate and clipping have no spike") {
  check_losses({.rate = 0.005}, {2.34, 2.45, 2.33, 2.25, 2.20, 2.24});
  check_losses({.largest_norm = 1}, {2.34, 2.44, 2.36, 2.18, 2.04, 2.04});
}

TEST_CASE("tour, training: the first loss is that of guessing, and small batches jump") {
  check_losses({.classes = 100}, {4.97});
  check_losses({.rate = 0.005, .batch_size = 16}, {2.40, 2.26, 2.56, 2.40, 2.28});
  check_losses({.rate = 0.005, .batch_size = 256}, {2.45});
}

TEST_CASE("tour, training: three of the six breakages") {
  check_losses({.zero_grad = false},
               {2.34, 3.40, 7.57, 8.82, 8.96, 6.18, 1.81, 1.03, 8.78, 20.30, 7.19, 2.53, 2.17});
  check_losses({.rate = 5}, {2.34, 191.23, 11656.13, 35174.62});
  check_losses({.momentum = 0}, {2.34, 3.40, 6.34, 7.14, 5.50, 3.25, 1.18, 0.87, 0.73});
}

}  // namespace
}  // namespace tiny
