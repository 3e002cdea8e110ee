// nll_loss against its formula: options, dtypes, gradients, errors. Against cross_entropy:
// cross_entropy_test.cpp.
#include "lathe/ops/losses/nll_loss.h"

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/ops/inplace.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE(
    "nll_loss: minus the weighted log-probability of each target, in every layout and dtype") {
  const Tensor target = tensor({{2, 0}, {-100, 1}}), weight = tensor({0.5, 2.0, 3.0}, kF64);
  const Tensor wide = f64({2, 3, 2});  // [N,C,d]
  for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
    for (const Layout& layout : layouts()) {
      const Tensor logp = layout.apply(wide.to(dtype));
      const auto at = [&](int64_t n, int64_t c, int64_t d) {
        return logp.select(0, n).select(0, c)[d].item<double>();
      };
      const std::vector<double> want = {-3 * at(0, 2, 0), -0.5 * at(0, 0, 1), 0, -2 * at(1, 1, 1)};
      const double sum = want[0] + want[1] + want[3], tol = tolerance_of(dtype);
      const auto loss = [&](Reduction r) {
        return nll_loss(logp, target, {.weight = weight, .reduction = r});
      };
      CHECK(difference(loss(Reduction::kNone), want, tol).empty());
      CHECK(difference(loss(Reduction::kSum), {sum}, tol).empty());
      CHECK(difference(loss(Reduction::kMean), {sum / 5.5}, tol).empty());
      CHECK(loss(Reduction::kMean).dtype() == dtype);
    }
  }
}

TEST_CASE("nll_loss: all ignored, nobody there, autocast") {
  const Tensor logp = randn({1, 4}, {.requires_grad = true});
  const Tensor loss = nll_loss(logp, full({1}, -100));
  CHECK(std::isnan(loss.item<float>()));
  loss.backward();
  CHECK(logp.grad().to_vector<double>() == std::vector<double>(4, 0.0));
  CHECK(nll_loss(zeros({0, 4}), zeros({0}, {.dtype = kI64}), {.reduction = Reduction::kSum})
            .item<float>() == 0);
  const Autocast half(kCPU, kF16);
  CHECK(nll_loss(zeros({2, 3}, {.dtype = kF16}), tensor({0, 1})).dtype() == kF32);
}

TEST_CASE("nll_loss: gradients agree with finite differences") {
  const Tensor target = tensor({{2, 0}, {-100, 1}}), weight = tensor({0.5, 2.0, 3.0}, kF64);
  for (const Reduction r : {Reduction::kNone, Reduction::kSum, Reduction::kMean}) {
    check_gradients({"nll_loss",
                     [&](const Tensors& in) {
                       return nll_loss(in[0], beside(in, target),
                                       {.weight = beside(in, weight), .reduction = r});
                     },
                     {f64({2, 3, 2})}});
  }
}

TEST_CASE("nll_loss: errors name the op and the values") {
  const Tensor logp = zeros({3, 10}), t = zeros({3}, {.dtype = kI64});
  for (const Reduction r : {Reduction::kNone, Reduction::kSum, Reduction::kMean}) {
    CHECK_THROWS_WITH_AS(
        nll_loss(logp, tensor({1, 3, 10}), {.reduction = r}),
        doctest::Contains("nll_loss: target 2 is 10, outside [0, 10) and not ignore_index -100"),
        IndexError);
  }
  CHECK_THROWS_WITH_AS(nll_loss(logp, tensor({1})),
                       doctest::Contains("nll_loss: targets of these scores must be [3]"),
                       ShapeError);
  CHECK_THROWS_AS(nll_loss(logp, t, {.weight = ones({10}, {.dtype = kI64})}), DTypeError);
  CHECK_THROWS_AS(nll_loss(logp, t, {.weight = ones({9})}), ShapeError);
  CHECK_THROWS_AS(nll_loss(logp, t.to(kF32)), DTypeError);
}
