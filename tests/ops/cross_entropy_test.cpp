// Cross-entropy against the definition in f64: every option, edge cases, gradients,
// errors.
#include "lathe/ops/losses/cross_entropy.h"

#include <limits>

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/embedding.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/losses/nll_loss.h"
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

TEST_CASE("cross_entropy: an infinite logit, or only -inf, makes its row NaN on every device") {
  // F.cross_entropy(x, y, reduction='none', label_smoothing=…); the last row has a loss of ln 2.
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<Device> devices{kCPU};
  if (cuda_is_available()) devices.emplace_back(DeviceType::kCUDA);
  for (const Device device : devices) {
    for (const double smoothing : {0.0, 0.1}) {
      CAPTURE(concat(smoothing, " on ", device));
      const Tensor x =
          tensor({{inf, 1.0, 2.0}, {-inf, -inf, -inf}, {1.0, inf, inf}, {5.0, 5.0, -100.0}}, kF32)
              .to(device)
              .detach()
              .requires_grad_();
      const Tensor y = tensor({2, 0, 1, 0}).to(device);
      const Tensor losses =
          cross_entropy(x, y, {.label_smoothing = smoothing, .reduction = Reduction::kNone});
      losses.sum().backward();
      const std::vector<double> values = losses.cpu().to_vector<double>();
      const std::vector<double> dx = x.grad().cpu().to_vector<double>();
      for (size_t i = 0; i < 9; ++i) CHECK(std::isnan(dx[i]));
      for (size_t i = 0; i < 3; ++i) CHECK(std::isnan(values[i]));
      if (smoothing == 0) CHECK(values[3] == doctest::Approx(std::log(2.0)));
      CHECK(std::isfinite(dx[9]));
    }
  }
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

namespace {

// x = torch.tensor([[1., 2., 4.], [0., -1., .5]], dtype=torch.float64)
// t = torch.tensor([[.2, .3, .5], [1., 0., .5]], dtype=torch.float64)
// F.cross_entropy(x, t, reduction='none', weight=torch.tensor([1., 2., 3.]) or None,
// label_smoothing=e)
struct Numbers {  // of two_scores() and two_targets()
  bool weighted;
  double e;
  std::vector<double> losses, dx, dt;  // the gradients of their sum
};
const Numbers kNumbers[] = {
    {false,
     0.0,
     {1.36984601955629, 1.40619590800509},
     {-0.157989933865934, -0.185804800615405, 0.343794734481339, -0.502751559363863,
      0.182927478464593, 0.319824080899269},
     {3.16984601955629, 2.16984601955629, 0.169846019556286, 1.10413060533673, 2.10413060533673,
      0.604130605336728}},
    {false,
     0.25,
     {1.48651268622295, 1.37234624900467},
     {-0.191323267199267, -0.194138133948739, 0.385461401148006, -0.377522262750208,
      0.0843501885925438, 0.293172074157664},
     {2.37738451466721, 1.62738451466721, 0.127384514667214, 0.828097954002546, 1.57809795400255,
      0.453097954002546}},
    {true,
     0.0,
     {2.19064584497946, 2.01032651334182},
     {-0.103376847891648, -0.337351041415433, 0.440727889307081, -0.171252598939771,
      0.304879130774322, -0.133626531834551},
     {3.16984601955629, 4.33969203911257, 0.509538058668857, 1.10413060533673, 4.20826121067346,
      1.81239181601018}},
    {true,
     0.25,
     {2.31124072684607, 2.1014768543414},
     {-0.139860936185036, -0.362582348035944, 0.50244328422098, -0.0460233023261161,
      0.122968507568939, -0.0769452052428234},
     {2.37738451466721, 3.25476902933443, 0.382153544001643, 0.828097954002546, 3.15619590800509,
      1.35929386200764}},
};

Tensor two_scores() { return tensor({{1.0, 2.0, 4.0}, {0.0, -1.0, 0.5}}, kF64); }
Tensor two_targets() { return tensor({{0.2, 0.3, 0.5}, {1.0, 0.0, 0.5}}, kF64); }

}  // namespace

TEST_CASE("cross_entropy: probabilities as targets, against PyTorch's losses and gradients") {
  std::vector<Device> devices{kCPU};
  if (cuda_is_available()) devices.emplace_back(DeviceType::kCUDA);
  for (const Device device : devices) {
    for (const Numbers& n : kNumbers) {
      for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
        CAPTURE(concat(n.weighted, " ", n.e, " ", dtype, " on ", device));
        const double tol = tolerance_of(dtype);
        const auto leaf = [&](const Tensor& t) {
          return t.to(dtype).to(device).clone().detach().requires_grad_();
        };
        const Tensor x = leaf(two_scores()), t = leaf(two_targets());
        const Tensor weight = n.weighted ? tensor({1.f, 2.f, 3.f}).to(device) : Tensor();
        const auto loss = [&](Reduction r) {
          return cross_entropy(x, t, {.weight = weight, .label_smoothing = n.e, .reduction = r});
        };
        const double sum = n.losses[0] + n.losses[1];
        CHECK(difference(loss(Reduction::kNone).cpu(), n.losses, tol) == "");
        CHECK(difference(loss(Reduction::kMean).cpu(), {sum / 2}, tol) == "");
        const Tensor total = loss(Reduction::kSum);
        CHECK(difference(total.cpu(), {sum}, tol) == "");
        CHECK(total.dtype() == dtype);
        total.backward();
        CHECK(difference(x.grad().cpu(), n.dx, tol) == "");
        CHECK(difference(t.grad().cpu(), n.dt, tol) == "");
      }
    }
  }
}

TEST_CASE("cross_entropy: probabilities as targets") {
  // One example; classes before other dimensions; a class for certain is that class.
  CHECK(cross_entropy(two_scores()[0], two_targets()[0]).item<double>() ==
        doctest::Approx(kNumbers[0].losses[0]).epsilon(1e-12));
  CHECK(cross_entropy(zeros({2, 3, 2}), ones({2, 3, 2})).item<double>() ==
        doctest::Approx(3 * std::log(3.0)).epsilon(1e-6));  // torch: 3.2958
  const Tensor x = f64({4, 3, 2}), target = randint(0, 3, {4, 2}), w = f64_in({3}, 0.2, 2);
  const Tensor certain = transpose(one_hot(target, 3), 1, 2).to(kF64);
  for (const double e : {0.0, 0.25}) {
    CHECK(difference(
              cross_entropy(x, certain,
                            {.weight = w, .label_smoothing = e, .reduction = Reduction::kNone}),
              cross_entropy(x, target,
                            {.weight = w, .label_smoothing = e, .reduction = Reduction::kNone}),
              1e-12) == "");
  }
  CHECK(std::isnan(cross_entropy(zeros({0, 3}), zeros({0, 3})).item<float>()));
  CHECK(cross_entropy(x.to(kF16), certain).dtype() == kF64);
  {
    const Autocast half(kCPU, kBF16);
    CHECK(cross_entropy(x.to(kBF16), certain.to(kBF16)).dtype() == kF32);
  }
  check_gradients({"cross_entropy",
                   [w](const Tensors& in) {
                     return cross_entropy(in[0], in[1],
                                          {.weight = beside(in, w), .label_smoothing = 0.1});
                   },
                   {f64({4, 3}), f64_in({4, 3}, 0, 1)}});
}

TEST_CASE("cross_entropy, nll_loss: one example without a batch") {
  // F.cross_entropy(torch.tensor([1., 2., 4.]), torch.tensor(1), weight=torch.tensor([1., 2., 3.]),
  //                 label_smoothing=.25, reduction='none')
  const Tensor x = tensor({1.0, 2.0, 4.0}, kF64), weight = tensor({1.0, 2.0, 3.0}, kF64);
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
                       doctest::Contains("floating targets are probabilities, of the shape of the "
                                         "scores (x: f32[2,3]@cpu, target: f32[2]@cpu)"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(cross_entropy(x, x, {.ignore_index = 1}),
                       doctest::Contains("ignore_index 1 has no meaning for probabilities"),
                       ValueError);
  CHECK_THROWS_AS(cross_entropy(x, x, {.weight = ones({2})}), ShapeError);
  CHECK_THROWS_AS(cross_entropy(x, x, {.label_smoothing = 2}), ValueError);
  CHECK_THROWS_AS(cross_entropy(x.to(kI64), x), DTypeError);
  CHECK_THROWS_WITH_AS(cross_entropy(x, zeros({2}, {.dtype = kBool})),
                       doctest::Contains("targets must be integers (target: bool[2]@cpu)"),
                       DTypeError);
  CHECK_THROWS_AS(cross_entropy(x.to(kI64), t), DTypeError);
  CHECK_THROWS_WITH_AS(
      cross_entropy(x, t, {.weight = ones({2})}),
      doctest::Contains(
          "weight must hold one number per class, 3 (x: f32[2,3]@cpu, weight: f32[2]@cpu)"),
      ShapeError);
  CHECK_THROWS_AS(cross_entropy(x, t, {.weight = ones({3}, {.dtype = kI64})}), DTypeError);
}
