// Cross-entropy against the definition in f64: every option, edge cases, gradients,
// errors.
#include "lathe/ops/cross_entropy.h"

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/nll_loss.h"
#include "lathe/ops/softmax.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  Shape x;
  bool weighted = false;
  double smoothing = 0;
  bool ignore = false;  // every third target
};
const Case kCases[] = {
    {{5, 10}},
    {{128, 10}, false, 0.1},
    {{4, 3}, true},
    {{6, 3}, true, 0.3, true},
    {{6, 4}, false, 1.0, true},
    {{2, 5, 3}, true, 0.2, true},
    {{2, 4, 3, 5}, false, 0.0, true},
    {{2, 1, 2}},        // one class
    {{3, 2000}, true},  // many
};

Tensor targets_of(const Case& c) {
  Shape shape = c.x;
  shape.erase(1);
  const Tensor t = randint(0, c.x[1], shape);
  int64_t* p = t.data<int64_t>();
  for (int64_t i = 0; c.ignore && i < t.numel(); i += 3) p[i] = -100;
  return t;
}
Tensor weight_of(const Case& c) { return c.weighted ? f64_in({c.x[1]}, 0.2, 2.0) : Tensor(); }

struct Reference {
  std::vector<double> losses;
  double sum = 0, mean = 0;
};

Reference reference(const Case& c, const Tensor& x, const Tensor& target, const Tensor& weight) {
  const std::vector<double> v = x.to_vector<double>();
  const std::vector<int64_t> t = target.to_vector<int64_t>();
  const std::vector<double> w = weight.defined()
                                    ? weight.to_vector<double>()
                                    : std::vector<double>(static_cast<size_t>(c.x[1]), 1.0);
  const size_t classes = w.size(), inner = v.size() / classes / static_cast<size_t>(c.x[0]);
  Reference r;
  double total_weight = 0;
  for (size_t i = 0; i < t.size(); ++i) {
    if (t[i] == -100) {
      r.losses.push_back(0);
      continue;
    }
    const auto score = [&](size_t k) { return v[(i / inner * classes + k) * inner + i % inner]; };
    double s = 0, even = 0;
    for (size_t k = 0; k < classes; ++k) s += std::exp(score(k));
    for (size_t k = 0; k < classes; ++k) even -= w[k] * (score(k) - std::log(s));
    const auto y = static_cast<size_t>(t[i]);
    const double nll = -w[y] * (score(y) - std::log(s));
    r.losses.push_back((1 - c.smoothing) * nll + c.smoothing / static_cast<double>(classes) * even);
    r.sum += r.losses.back();
    total_weight += w[y];
  }
  r.mean = r.sum / total_weight;
  return r;
}

Tensor loss_of(const Case& c, const Tensor& x, const Tensor& target, const Tensor& weight,
               Reduction reduction) {
  return cross_entropy(x, target,
                       {.weight = weight, .label_smoothing = c.smoothing, .reduction = reduction});
}

}  // namespace

TEST_CASE("cross_entropy: values agree with the definition in every layout and dtype") {
  manual_seed(5);
  for (const Case& c : kCases) {
    const Tensor target = targets_of(c), weight = weight_of(c), wide = randn(c.x, {.dtype = kF64});
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      for (const Layout& layout : layouts()) {
        const Tensor x = layout.apply(wide.to(dtype));
        const Reference want = reference(c, x, target, weight);
        const double tol = tolerance_of(dtype);
        const auto check = [&](Reduction reduction, const std::vector<double>& expected) {
          const Tensor got = loss_of(c, x, target, weight, reduction);
          const std::string wrong = difference(got, expected, tol);
          CHECK_MESSAGE(wrong.empty(), concat(x, " ", layout.name, ": "), wrong);
          CHECK(got.dtype() == dtype);
        };
        check(Reduction::kNone, want.losses);
        check(Reduction::kSum, {want.sum});
        check(Reduction::kMean, {want.mean});
      }
    }
  }
}

TEST_CASE("cross_entropy: gradients agree with finite differences") {
  manual_seed(6);
  for (const Case& c : {Case{{4, 3}}, Case{{6, 3}, true, 0.3, true},
                        Case{{2, 4, 3}, true, 0.2, true}, Case{{5, 4}, false, 1.0}}) {
    const Tensor target = targets_of(c), weight = weight_of(c);
    for (const Reduction reduction : {Reduction::kNone, Reduction::kSum, Reduction::kMean}) {
      check_gradients({"cross_entropy",
                       [&](const Tensors& in) {
                         return loss_of(c, in[0], beside(in, target),
                                        weight.defined() ? beside(in, weight) : weight, reduction);
                       },
                       {f64(c.x)}});
    }
  }
}

TEST_CASE("cross_entropy: the gradient of the mean is (softmax - onehot) / count") {
  for (const DType dtype : {kF64, kF32, kF16}) {
    const Tensor x = randn({4, 5}, {.dtype = dtype, .requires_grad = true});
    cross_entropy(x, tensor({0, 4, -100, 2})).backward();
    std::vector<double> want = softmax(x.detach().to(kF64), 1).to_vector<double>();
    want[0] -= 1, want[9] -= 1, want[17] -= 1;
    for (size_t i = 0; i < want.size(); ++i) want[i] = i / 5 == 2 ? 0 : want[i] / 3;
    CHECK(difference(x.grad(), want, tolerance_of(dtype)).empty());
    CHECK(x.grad().dtype() == dtype);
  }
}

TEST_CASE("cross_entropy: it is nll_loss of log_softmax") {
  for (const Case& c : kCases) {
    if (c.smoothing != 0) continue;
    const Tensor x = f64(c.x), target = targets_of(c), weight = weight_of(c);
    for (const Reduction reduction : {Reduction::kNone, Reduction::kSum, Reduction::kMean}) {
      const Tensor two_steps =
          nll_loss(log_softmax(x, 1), target, {.weight = weight, .reduction = reduction});
      CHECK(difference(loss_of(c, x, target, weight, reduction), two_steps, 1e-12).empty());
    }
  }
}

TEST_CASE("cross_entropy: large logits keep the small differences") {
  const Tensor x = tensor({{1000.f, 1001.f, 999.f}, {-1e30f, 1e30f, 0.f}});
  const std::vector<double> losses =
      cross_entropy(x, tensor({1, 1}), {.reduction = Reduction::kNone}).to_vector<double>();
  CHECK(losses[0] == doctest::Approx(std::log(1 + std::exp(-1.0) + std::exp(-2.0))).epsilon(1e-6));
  CHECK(losses[1] == 0);
}

TEST_CASE("cross_entropy: all ignored, nobody there") {
  for (const double smoothing : {0.0, 0.1}) {
    const Tensor x = randn({3, 4}, {.requires_grad = true}), ignored = full({3}, -100);
    const CrossEntropyOptions mean{.label_smoothing = smoothing};
    const CrossEntropyOptions sum{.label_smoothing = smoothing, .reduction = Reduction::kSum};
    CHECK(cross_entropy(x, ignored, sum).item<float>() == 0);
    const Tensor loss = cross_entropy(x, ignored, mean);
    CHECK(std::isnan(loss.item<float>()));
    loss.backward();
    CHECK(x.grad().to_vector<double>() == std::vector<double>(12, 0.0));
    CHECK(
        std::isnan(cross_entropy(zeros({0, 4}), zeros({0}, {.dtype = kI64}), mean).item<float>()));
    CHECK(cross_entropy(zeros({0, 4}), zeros({0}, {.dtype = kI64}), sum).item<float>() == 0);
  }
  // An ignored number inside the range of the classes counts for nothing either.
  const Tensor x = randn({2, 3});
  CHECK(difference(cross_entropy(x, tensor({1, 2}), {.ignore_index = 1}),
                   cross_entropy(x.narrow(0, 1, 1), tensor({2})), 1e-6)
            .empty());
}

TEST_CASE("cross_entropy, nll_loss: one example without a batch") {
  // F.cross_entropy(torch.tensor([1., 2., 4.]), torch.tensor(1), weight=torch.tensor([1., 2., 3.]),
  //                 label_smoothing=.25, reduction='none')
  const Tensor x = tensor({1.0, 2.0, 4.0}), weight = tensor({1.0, 2.0, 3.0});
  const CrossEntropyOptions opt{
      .weight = weight, .label_smoothing = 0.25, .reduction = Reduction::kNone};
  const Tensor loss = cross_entropy(x, tensor(1), opt);
  CHECK(loss.shape() == Shape{});
  CHECK(loss.item<double>() == doctest::Approx(3.9230253724459048).epsilon(1e-12));
  CHECK(cross_entropy(x, tensor(1)).item<double>() ==
        doctest::Approx(2.1698460195562856).epsilon(1e-12));
  CHECK(cross_entropy(x, tensor(-100), {.reduction = Reduction::kSum}).item<double>() == 0);
  CHECK(nll_loss(x, tensor(2), {.weight = weight, .reduction = Reduction::kNone}).item<double>() ==
        -12);
  CHECK(nll_loss(x, tensor(2)).shape() == Shape{});
  check_gradients({"cross_entropy",
                   [](const Tensors& in) { return cross_entropy(in[0], beside(in, tensor(1))); },
                   {f64({4})}});
}

TEST_CASE("cross_entropy: u8 and i32 targets, autocast, threads") {
  const Tensor x = randn({3000, 7}), target = randint(0, 7, {3000});
  const Tensor loss = cross_entropy(x, target);
  CHECK(difference(cross_entropy(x, target.to(kU8)), loss, 0).empty());
  CHECK(difference(cross_entropy(x, target.to(kI32)), loss, 0).empty());
  const int before = num_threads();
  set_num_threads(1);
  const Tensor alone = cross_entropy(x, target);
  set_num_threads(4);
  CHECK(difference(cross_entropy(x, target), alone, 0).empty());
  set_num_threads(before);
  const Autocast half(kCPU, kF16);
  CHECK(cross_entropy(x.to(kF16), target).dtype() == kF32);
}

TEST_CASE("cross_entropy: a bad target names its place and number, for every reduction") {
  const Tensor x = zeros({3, 10});
  for (const Reduction reduction : {Reduction::kNone, Reduction::kSum, Reduction::kMean}) {
    for (const int64_t bad : {int64_t{10}, int64_t{-1}, int64_t{-101}, int64_t{1} << 40}) {
      const Tensor target = tensor({int64_t{1}, bad, int64_t{3}});
      const std::string place = concat(
          "target 1 is ", bad, ", outside [0, 10) and not ignore_index -100 (target: i64[3]@cpu)");
      CHECK_THROWS_WITH_AS(cross_entropy(x, target, {.reduction = reduction}),
                           doctest::Contains(("cross_entropy: " + place).c_str()), IndexError);
    }
  }
}

TEST_CASE("cross_entropy: errors name the op and the values") {
  const Tensor x = zeros({2, 3}), t = zeros({2}, {.dtype = kI64});
  CHECK_THROWS_WITH_AS(cross_entropy(x, t, {.label_smoothing = 1.5}),
                       doctest::Contains("label_smoothing must be in [0, 1], got 1.5"), ValueError);
  CHECK_THROWS_AS(cross_entropy(x, t, {.label_smoothing = std::nan("")}), ValueError);
  CHECK_THROWS_WITH_AS(
      cross_entropy(x, zeros({3}, {.dtype = kI64})),
      doctest::Contains(
          "targets of these scores must be [2] (x: f32[2,3]@cpu, target: i64[3]@cpu)"),
      ShapeError);
  CHECK_THROWS_AS(cross_entropy(zeros({}), zeros({}, {.dtype = kI64})), ShapeError);
  CHECK_THROWS_AS(cross_entropy(zeros({3}), zeros({1}, {.dtype = kI64})), ShapeError);
  CHECK_THROWS_WITH_AS(cross_entropy(x, zeros({2})),
                       doctest::Contains("targets must be integers (target: f32[2]@cpu)"),
                       DTypeError);
  CHECK_THROWS_AS(cross_entropy(x.to(kI64), t), DTypeError);
  CHECK_THROWS_WITH_AS(
      cross_entropy(x, t, {.weight = ones({2})}),
      doctest::Contains(
          "weight must hold one number per class, 3 (x: f32[2,3]@cpu, weight: f32[2]@cpu)"),
      ShapeError);
  CHECK_THROWS_AS(cross_entropy(x, t, {.weight = ones({3}, {.dtype = kI64})}), DTypeError);
}
