// What docs/tour says of the steps of tiny/main.cpp: the losses and the dead filters of the page on
// training, and the gradients of chapter 6.
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
  bool label = true;  // false: as if cross_entropy()'s gradient did not subtract 1 at the label
  int64_t batch_size = 64, classes = 10;
};

/// The mean score of each image's label. Its gradient is 1/N there.
Tensor mean_of_labels(const Tensor& scores, const Labels& labels) {
  Tensor share(scores.shape());
  const int64_t N = scores.dim(0), C = scores.dim(1);
  for (int64_t n = 0; n < N; ++n) share.data()[n * C + labels[n]] = 1.0 / static_cast<double>(N);
  return sum(scores * share);
}

double mean_of(const Tensor& x) {
  return std::accumulate(x.data(), x.data() + x.numel(), 0.0) / static_cast<double>(x.numel());
}

void clip(const Net& net, double largest_norm) {
  double squares = 0;
  for (const Tensor& p : net.parameters())
    for (int64_t i = 0; i < p.numel(); ++i) squares += grad(p).data()[i] * grad(p).data()[i];
  const double factor = std::min(1.0, largest_norm / (std::sqrt(squares) + 1e-6));
  for (const Tensor& p : net.parameters())
    p.meta()->grad = map(grad(p), [&](double g) { return factor * g; });
}

/// How many channels of y [N,C,H,W], which is not negative, are 0 throughout. `alive` gets those
/// that are not.
int64_t dead_channels(const Tensor& y, std::vector<bool>& alive) {
  const int64_t C = y.dim(1), pixels = y.dim(2) * y.dim(3);
  alive.resize(C);
  for (int64_t i = 0; i < y.numel(); ++i)
    if (y.data()[i] > 0) alive[i / pixels % C] = true;
  return std::count(alive.begin(), alive.end(), false);
}

/// The training of main.cpp with a change, step by step.
class Training {
 public:
  explicit Training(const Change& change) : change_(change) {}
  /// Makes the next step and returns its loss.
  double step() {
    std::optional<Batch> batch = epoch_ ? epoch_->next() : std::nullopt;
    if (!batch) {
      sgd_.set_lr(change_.rate * static_cast<double>(3 - epochs_) / 3);
      epoch_.emplace(images(),
                     LoaderOptions{.batch_size = change_.batch_size, .shuffle = true, .seed = 1},
                     epochs_++);
      batch = epoch_->next();
    }
    if (change_.zero_grad) sgd_.zero_grad();
    const Tensor scores = forward(batch->x), loss = cross_entropy(scores, batch->labels);
    mean_score_ = mean_of(scores);
    backward(change_.label ? loss : loss + mean_of_labels(scores, batch->labels));
    clip(net_, change_.largest_norm);
    sgd_.step();
    return loss.item();
  }

  /// The gradient of the second convolution's output in the last step.
  const Tensor& gradient() const { return gradient_; }
  /// Of the last step's batch: the mean of all scores.
  double mean_score() const { return mean_score_; }
  /// The sum of the squares of what the linear layer reads of an image, in the mean.
  double squares() const { return squares_; }
  /// Filters of the second convolution that were 0 throughout the last step's batch.
  int64_t dead_in_batch() const { return dead_in_batch_; }
  /// Those that are 0 throughout all images, in evaluation.
  int64_t dead() {
    const NoGrad off;
    std::vector<bool> alive;
    int64_t dead = 0;
    Epoch epoch(images(), {.batch_size = 64}, 0);
    while (const std::optional<Batch> batch = epoch.next()) {
      const Tensor a = max_pool2d(relu(net_.bn1(net_.conv1(batch->x), false)), 2);
      dead = dead_channels(relu(net_.bn2(net_.conv2(a), false)), alive);
    }
    return dead;
  }

 private:
  static const Dataset& images() {
    static const Dataset set = made_up_images(2000, 1);
    return set;
  }
  /// Net::forward() in training, watched.
  Tensor forward(const Tensor& x) {
    const Tensor a = max_pool2d(relu(net_.bn1(net_.conv1(x), true)), 2);
    const Tensor y = net_.conv2(a);
    const Tensor watched = record("watch", copy_of(y), {y}, [this](const Tensor& dy, const Needs&) {
      gradient_ = copy_of(dy);
      return std::vector{dy};
    });
    const Tensor positive = relu(net_.bn2(watched, true));
    std::vector<bool> alive;
    dead_in_batch_ = dead_channels(positive, alive);
    const Tensor b = max_pool2d(positive, 2);
    squares_ = mean_of(b * b) * static_cast<double>(b.numel() / b.dim(0));
    return net_.fc(reshape(b, {b.dim(0), b.numel() / b.dim(0)}));
  }

  Change change_;
  Generator random_{0};
  Net net_{28, 28, change_.classes, random_};
  Sgd sgd_{net_.parameters(), {.momentum = change_.momentum, .weight_decay = 5e-4}};
  std::optional<Epoch> epoch_;
  uint64_t epochs_ = 0;  // that have begun
  Tensor gradient_;
  int64_t dead_in_batch_ = 0;
  double mean_score_ = 0, squares_ = 0;
};

void check_losses(const Change& change, const std::vector<double>& expected) {
  Training training(change);
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(training.step() - expected[i]) < 0.006 + 1e-3 * expected[i]);
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

TEST_CASE("tour, training: without the label all scores fall, and a small rate keeps the loss") {
  check_losses({.label = false}, {2.34, 2.90, 2.78, 5.10, 9.89, 16.47, 48.05});
  Training large({.label = false});
  for (int step = 1; step <= 4; ++step) large.step();
  CHECK(large.mean_score() == doctest::Approx(-27).epsilon(0.02));
  Training small({.rate = 0.005, .momentum = 0, .label = false});
  double last = 0;
  for (int step = 1; step <= 96; ++step) {
    last = small.step();
    CHECK(last > 2.2);
    CHECK(last < 2.6);
    if (step == 1) CHECK(small.mean_score() == doctest::Approx(-0.33).epsilon(0.01));
  }
  CHECK(small.mean_score() == doctest::Approx(-54).epsilon(0.02));
  CHECK(small.squares() == doctest::Approx(2800).epsilon(0.02));
}

TEST_CASE("tour, training: without the label a loss leaves 2.4 where the step is too long") {
  Training training({.rate = 0.005, .label = false});
  std::vector<double> losses, squares;
  for (int step = 1; step <= 32; ++step) {
    losses.push_back(training.step());
    squares.push_back(training.squares());
  }
  CHECK(squares[0] == doctest::Approx(1126).epsilon(0.001));
  CHECK(*std::max_element(losses.begin(), losses.begin() + 23) < 2.54);
  CHECK(squares[23] == doctest::Approx(7200).epsilon(0.01));  // below 3.8 / 0.005 · 10
  CHECK(squares[24] == doctest::Approx(8640).epsilon(0.01));
  const double expected[] = {2.60, 2.80, 3.11, 4.90, 7.33, 14.62, 17.67, 25.07, 46.49};
  for (int i = 0; i < 9; ++i) CHECK(losses[23 + i] == doctest::Approx(expected[i]).epsilon(0.01));
}

/// How many numbers of x have which exponent. Zeros are left out.
std::map<int, int64_t> by_exponent(const Tensor& x) {
  std::map<int, int64_t> counts;
  for (int64_t i = 0; i < x.numel(); ++i)
    if (x.data()[i] != 0) ++counts[std::ilogb(x.data()[i])];
  return counts;
}

/// The numbers below 2^exponent, as a share of those that are not 0.
double share_below(const Tensor& x, int exponent) {
  int64_t below = 0, all = 0;
  for (const auto& [at, count] : by_exponent(x)) {
    all += count;
    if (at < exponent) below += count;
  }
  return static_cast<double>(below) / static_cast<double>(all);
}

TEST_CASE("tour 6: the gradients of step 40 by size, as the figure has them") {
  Training training({.rate = 0.005});
  training.step();
  CHECK(share_below(training.gradient(), -24) == doctest::Approx(0.010).epsilon(0.05));
  double loss = 0;
  for (int step = 2; step <= 40; ++step) loss = training.step();
  CHECK(loss == doctest::Approx(0.08).epsilon(0.06));
  // GRADIENTS of docs/tour/drawing/chapters_1_to_6.py, from 2^-41 on. The last bits of exp() and
  // log() differ from one C library to another, so a gradient may be on the other side of a border.
  const std::vector<int64_t> expected{1,     0,     0,     0,     1,     4,    2,    8,    14,
                                      36,    70,    116,   283,   473,   975,  1934, 3903, 8462,
                                      29438, 31942, 43610, 31763, 16454, 5946, 4461, 5466, 6189,
                                      4940,  2724,  1081,  266,   131,   11};
  std::map<int, int64_t> counts = by_exponent(training.gradient());
  int64_t all = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    const int64_t count = counts[static_cast<int>(i) - 41];
    CHECK(std::abs(count - expected[i]) <= 2);
    all += count;
  }
  CHECK(all == 64 * 16 * 14 * 14);
}

/// What chapter 6 says of the gradients of step 40 of a run.
void check_step_40(const Training& training, int64_t zeros, double below, double below_scaled) {
  const Tensor& dy = training.gradient();
  CHECK(std::count(dy.data(), dy.data() + dy.numel(), 0) == zeros);
  CHECK(std::abs(share_below(dy, -24) - below) < 0.001);
  CHECK(std::abs(share_below(dy, -24 - 16) - below_scaled) < 0.001);
}

TEST_CASE("tour 6: clipped, a quarter of the gradients of step 40 is too small for f16") {
  Training training({.largest_norm = 1});
  double loss = 0;
  for (int step = 1; step <= 40; ++step) {
    loss = training.step();
    CHECK(training.dead_in_batch() == 0);
  }
  CHECK(std::abs(loss - 0.02) < 0.006);
  check_step_40(training, 0, 0.262, 0);
}

TEST_CASE("tour, training: with a rate of 0.05 filters die when the loss has come down") {
  Training training({});
  for (int step = 1; step <= 32; ++step) {
    CAPTURE(step);
    training.step();
    if (step <= 9) CHECK(training.dead_in_batch() == 0);
    if (step == 10) CHECK(training.dead_in_batch() == 2);
    if (step == 14) CHECK(training.dead_in_batch() == 11);
  }
  CHECK(training.dead() == 7);
  double loss = 0;
  for (int step = 33; step <= 40; ++step) loss = training.step();
  CHECK(std::abs(loss - 0.03) < 0.006);
  check_step_40(training, 112896, 0.753, 0.032);  // as chapter 6 says
}

TEST_CASE("tour, training: with a rate of 0.5 all filters are 0 first in step 10") {
  Training training({.rate = 0.5});
  for (int step = 1; step <= 10; ++step) {
    CAPTURE(step);
    training.step();
    CHECK((training.dead_in_batch() == 16) == (step == 10));
  }
}

TEST_CASE("tour, training: without momentum no filter dies of a rate of 0.05") {
  Training training({.momentum = 0});
  for (int step = 1; step <= 14; ++step) {
    training.step();
    CHECK(training.dead_in_batch() == 0);
  }
}

}  // namespace
}  // namespace tiny
