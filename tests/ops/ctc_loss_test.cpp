// ctc_loss against PyTorch's numbers (2.15, f64), and against the sum over all paths.
#include "lathe/ops/losses/ctc_loss.h"

#include <cmath>
#include <functional>
#include <limits>

#include "compare.h"
#include "lathe/ops/softmax.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using Values = std::vector<double>;
using In = const Tensors&;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr Reduction kNone = Reduction::kNone;

/// ((arange(60) * 5 % 7) / 3).reshape(5, 3, 4).log_softmax(2)
Tensor scores() {
  return log_softmax(remainder(arange(60, {.dtype = kF64}) * 5, 7).view({5, 3, 4}) / 3, 2);
}
const Tensor kTargets = tensor({{1, 1, 2}, {3, 0, 0}, {2, 1, 3}});

/// Minus the logarithm of the summed probabilities of all paths that become `target`.
double by_paths(const Tensor& logp, const std::vector<int64_t>& target) {
  const int64_t steps = logp.dim(0), classes = logp.dim(1);
  const Values values = logp.to_vector<double>();
  double sum = 0;
  const std::function<void(int64_t, double, int64_t, std::vector<int64_t>)> walk =
      [&](int64_t t, double score, int64_t before, std::vector<int64_t> seen) {
        if (t == steps) {
          if (seen == target) sum += std::exp(score);
          return;
        }
        for (int64_t c = 0; c < classes; ++c) {
          std::vector<int64_t> now = seen;
          if (c != 0 && c != before) now.push_back(c);
          walk(t + 1, score + values[static_cast<size_t>(t * classes + c)], c, now);
        }
      };
  walk(0, 0, 0, {});
  return -std::log(sum);
}

}  // namespace

TEST_CASE("ctc_loss: values of every reduction and form of targets, on every device") {
  const Values want = {4.440901616925807, 3.4087487909790255, 7.530524237467448};
  for (const Device device : devices()) {
    for (const Layout& layout : layouts()) {
      CAPTURE(concat(layout.name, " on ", device));
      const Tensor logp = layout.apply(scores()).to(device);
      const Tensor targets = layout.apply(kTargets).to(device);
      const auto loss = [&](const Tensor& y, const CtcOptions& opt) {
        return ctc_loss(logp, y, {5, 4, 3}, {2, 1, 3}, opt).cpu();
      };
      CHECK(difference(loss(targets, {.reduction = kNone}), want, 1e-12) == "");
      CHECK(loss(targets, {}).item<double>() == doctest::Approx(2.7131247817548036));
      CHECK(loss(targets, {.reduction = Reduction::kSum}).item<double>() ==
            doctest::Approx(15.38017464537228));
      const Tensor flat = tensor({1, 1, 3, 2, 1, 3}).to(device);
      CHECK(difference(loss(flat, {.reduction = kNone}), want, 1e-12) == "");
      const Tensor others = tensor({{1, 1, 3}, {3, 0, 0}, {0, 1, 3}}).to(device);
      CHECK(difference(loss(others, {.blank = 2, .reduction = kNone}),
                       {4.853038009519322, 4.027954087080863, 6.197190904134116}, 1e-12) == "");
    }
  }
  const Tensor one =
      ctc_loss(scores().select(1, 0), kTargets[0].slice(0, 0, 2), {5}, {2}, {.reduction = kNone});
  CHECK(one.ndim() == 0);
  CHECK(one.item<double>() == doctest::Approx(4.440901616925807));
  CHECK(ctc_loss(scores().to(kF16), kTargets, {5, 4, 3}, {2, 1, 3}).dtype() == kF16);
}

TEST_CASE("ctc_loss: empty targets, targets that do not fit, zero_infinity") {
  const auto loss = [&](const CtcOptions& opt) {
    return ctc_loss(scores(), kTargets, {3, 4, 5}, {3, 0, 2}, opt);
  };
  CHECK(difference(loss({.reduction = kNone}), {kInf, 5.873135901902128, 3.204083342488354},
                   1e-12) == "");
  CHECK(difference(loss({.reduction = kNone, .zero_infinity = true}),
                   {0, 5.873135901902128, 3.204083342488354}, 1e-12) == "");
  CHECK(loss({.zero_infinity = true}).item<double>() == doctest::Approx(2.491725857715435));
  CHECK(difference(
            ctc_loss(scores(), zeros({3, 0}, kI64), {5, 4, 3}, {0, 0, 0}, {.reduction = kNone}),
            ctc_loss(scores(), kTargets, {5, 4, 3}, {0, 0, 0}, {.reduction = kNone}), 1e-12) == "");
}

TEST_CASE("ctc_loss: the sum over all paths") {
  const Tensor logp = scores();
  const std::vector<std::vector<int64_t>> targets = {{}, {2}, {1, 2}, {3, 3}, {1, 1, 2}, {2, 1, 3}};
  for (int64_t n = 0; n < 3; ++n) {
    for (const std::vector<int64_t>& target : targets) {
      CAPTURE(concat("sequence ", n, " target of ", target.size()));
      const Tensor y = target.empty() ? zeros({0}, kI64) : tensor(target);
      const Tensor loss = ctc_loss(logp.select(1, n), y, {5}, {y.numel()}, {.reduction = kNone});
      CHECK(loss.item<double>() == doctest::Approx(by_paths(logp.select(1, n), target)));
    }
  }
}

TEST_CASE("ctc_loss: gradients agree with finite differences, twice") {
  manual_seed(52);
  const auto f = [](In in) {
    return ctc_loss(in[0], beside(in, kTargets), {5, 4, 3}, {2, 1, 3}, {.reduction = kNone});
  };
  check_gradients({"ctc_loss", f, {f64({5, 3, 4})}});
  check_gradients({"ctc_loss of equal scores", f, {zeros({5, 3, 4}, kF64)}});
}

TEST_CASE("ctc_loss: errors name the values") {
  const Tensor logp = zeros({5, 3, 4});
  CHECK_THROWS_WITH_AS(ctc_loss(logp, kTargets, {5, 6, 3}, {2, 1, 3}),
                       Contains("ctc_loss: input_lengths[1] must be in [0, 5], got 6"), ValueError);
  CHECK_THROWS_WITH_AS(ctc_loss(logp, kTargets, {5, 5, 3}, {2, 1, 4}),
                       Contains("target_lengths[2] must be in [0, 3], got 4"), ValueError);
  CHECK_THROWS_AS(ctc_loss(logp, kTargets, {5, 5}, {2, 1, 3}), ShapeError);
  CHECK_THROWS_AS(ctc_loss(logp, tensor({1, 2}), {5, 5, 3}, {1, 1, 1}), ShapeError);
  CHECK_THROWS_AS(ctc_loss(logp, kTargets, {5, 5, 3}, {2, 1, 3}, {.blank = 4}), ValueError);
  CHECK_THROWS_AS(ctc_loss(logp, kTargets * 2, {5, 5, 3}, {2, 1, 3}), IndexError);
  CHECK_THROWS_AS(ctc_loss(logp, logp, {5, 5, 3}, {2, 1, 3}), DTypeError);
}
