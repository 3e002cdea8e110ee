// Losses with a margin. The numbers are PyTorch's (1.13, f64, reduction="none").
#include "lathe/ops/losses/margin_losses.h"

#include "compare.h"
#include "lathe/autograd/autocast.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {
using In = const Tensors&;
constexpr Reduction kNone = Reduction::kNone;
const Tensor kA = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}, {1.0, 0.0, 0.0}}, kF64);
const Tensor kB = tensor({{0.0, -1.0, 2.0}, {2.0, 2.0, -3.0}, {1.0, 1.0, 0.0}}, kF64);
const Tensor kC = tensor({{1.0, 1.0, 1.0}, {0.0, 5.0, 0.0}, {3.0, 1.0, 2.0}}, kF64);
}  // namespace

TEST_CASE("margin losses: values in every layout and reduction") {
  const Tensor sign = tensor({1.0, -1.0, -1.0}, kF64);
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.name);
    const Tensor a = layout.apply(kA), b = layout.apply(kB), c = layout.apply(kC);
    CHECK(difference(cosine_embedding_loss(a, b, sign, {.margin = 0.2, .reduction = kNone}),
                     {0.5219085562663074, 0, 0.507106781186017}, 1e-14) == "");
    CHECK(difference(triplet_margin_loss(a, b, c, {.margin = 2, .reduction = kNone}),
                     {3.0805569787713885, 4.484257221143905, 6.666676295452589e-07}, 1e-14) == "");
    CHECK(difference(triplet_margin_loss(a, b, c,
                                         {.margin = 20, .p = 1, .swap = true, .reduction = kNone}),
                     {22, 26.000004, 17.000002}, 1e-14) == "");
  }
  CHECK(
      difference(hinge_embedding_loss(tensor({0.5, 0.25, 2.0, -1.0}, kF64), tensor({1, -1, -1, 1}),
                                      {.margin = 0.75, .reduction = kNone}),
                 {0.5, 0.5, 0, -1}, 0) == "");
  const Tensor x1 = tensor({1.0, 2.0, 0.0, 1.0}, kF64), x2 = tensor({0.0, 1.0, 2.0, 4.0}, kF64);
  const Tensor y = tensor({1, -1, 1, -1});
  CHECK(difference(margin_ranking_loss(x1, x2, y, {.margin = 0.5, .reduction = kNone}),
                   {0, 1.5, 2.5, 0}, 0) == "");
  CHECK(margin_ranking_loss(x1, x2, y, {.margin = 0.5}).item<double>() == 1);
  CHECK(margin_ranking_loss(x1, x2, y, {.margin = 0.5, .reduction = Reduction::kSum})
            .item<double>() == 4);
  CHECK(cosine_embedding_loss(kA[0], kB[0], tensor(1.0, kF64)).ndim() == 0);
  CHECK(cosine_embedding_loss(zeros({2, 3}, {.dtype = kF16}), ones({2, 3}, {.dtype = kF16}),
                              ones({2}))
            .item<double>() == 1);
  CHECK(triplet_margin_loss(zeros({0, 3}), zeros({0, 3}), zeros({0, 3}), {.reduction = kNone})
            .shape() == Shape{0});
  const Autocast half(kCPU, kF16);
  const Tensor h = ones({2, 3}, {.dtype = kF16});
  CHECK(triplet_margin_loss(h, h, h).dtype() == kF32);
}

TEST_CASE("margin losses of classes: values of PyTorch 2.15") {
  const Tensor a = tensor({{1.0, -2.0, 3.0}, {0.5, 4.0, -5.0}}, kF64);
  const Tensor signs = tensor({{1.0, -1.0, 1.0}, {-1.0, 1.0, -1.0}}, kF64), bits = (signs + 1) / 2;
  const Tensor w = tensor({0.5, 2.0, 1.0}, kF64);
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.name);
    const Tensor x = layout.apply(a), y = layout.apply(signs), z = layout.apply(bits);
    CHECK(difference(soft_margin_loss(x, y, {kNone}),
                     {0.31326168751822286, 0.1269280110429725, 0.04858735157374206,
                      0.9740769841801067, 0.018149927917809738, 0.006715348489118068},
                     1e-15) == "");
    CHECK(soft_margin_loss(x, y).item<double>() == doctest::Approx(0.247953218453662));
    CHECK(difference(multi_margin_loss(x, tensor({2, 0}), {.reduction = kNone}), {0, 1.5}, 1e-15) ==
          "");
    CHECK(difference(multi_margin_loss(x, tensor({2, 0}),
                                       {.p = 2, .margin = 0.5, .weight = w, .reduction = kNone}),
                     {0, 2.6666666666666665}, 1e-15) == "");
    CHECK(multi_margin_loss(x, tensor({1, 1})).item<double>() ==
          doctest::Approx(1.6666666666666667));
    CHECK(difference(multilabel_margin_loss(x, tensor({{2, 0, -1}, {1, -1, 0}}), {kNone}), {0, 0},
                     1e-15) == "");
    CHECK(multilabel_margin_loss(x[0], tensor({1, -1, 0})).item<double>() ==
          doctest::Approx(3.3333333333333335));
    CHECK(difference(multilabel_soft_margin_loss(x, z, {.reduction = kNone}),
                     {0.16292568337831248, 0.3329807535290115}, 1e-15) == "");
    CHECK(multilabel_soft_margin_loss(x, z, {.weight = w}).item<double>() ==
          doctest::Approx(0.1648546523055982));
  }
  CHECK_THROWS_WITH_AS(multi_margin_loss(a, tensor({0, 1}), {.p = 3}),
                       Contains("multi_margin_loss: p must be 1 or 2, got 3"), ValueError);
  CHECK_THROWS_AS(multi_margin_loss(a, tensor({0, 3})), IndexError);
  CHECK_THROWS_AS(multi_margin_loss(a, tensor({0})), ShapeError);
  CHECK_THROWS_AS(multi_margin_loss(a, signs[0]), DTypeError);
  CHECK_THROWS_AS(multilabel_margin_loss(a, tensor({{0, 3, -1}, {0, -1, -1}})), IndexError);
  CHECK_THROWS_AS(multilabel_margin_loss(a, tensor({0, 1})), ShapeError);
  CHECK_THROWS_AS(multilabel_soft_margin_loss(a, bits, {.weight = w[0]}), ShapeError);
}

TEST_CASE("multilabel_margin_loss: many classes, of which few are targets") {
  const int64_t classes = 300'000;  // their pairs would take 360 GB
  const Tensor y = full({classes}, -1, {.dtype = kI64});
  y[0].fill_(5);
  y[1].fill_(7);
  CHECK(multilabel_margin_loss(zeros({classes}), y).item<double>() ==
        doctest::Approx(2.0 * (classes - 2) / classes));
  CHECK(multilabel_margin_loss(zeros({2, 4}), full({2, 4}, -1, {.dtype = kI64}), {kNone})
            .to_vector<double>() == std::vector<double>{0, 0});
  CHECK(multilabel_margin_loss(zeros({0, 4}), zeros({0, 4}, kI64), {kNone}).shape() == Shape{0});
}

TEST_CASE("margin losses: gradients agree with finite differences, twice") {
  manual_seed(9);
  const Tensor a = f64({3, 4}), b = f64({3, 4}), c = f64({3, 4});
  const Tensor rows = tensor({1, -1, -1}), signs = tensor({{1}, {-1}, {-1}});
  const auto sign_of = [&](In in) { return beside(in, signs).expand({3, 4}); };
  // Margins far above what the random numbers reach, so that no case sits at a corner.
  // clang-format off
  const GradientCase cases[] = {
      {"cosine_embedding_loss", [&](In in) { return cosine_embedding_loss(in[0], in[1], beside(in, rows), {.margin = -2, .reduction = kNone}); }, {a, b}},
      {"hinge_embedding_loss", [&](In in) { return hinge_embedding_loss(in[0], sign_of(in), {.margin = 9}); }, {a}},
      {"margin_ranking_loss", [&](In in) { return margin_ranking_loss(in[0], in[1], sign_of(in), {.margin = 9}); }, {a, b}},
      {"soft_margin_loss", [&](In in) { return soft_margin_loss(in[0], sign_of(in), {kNone}); }, {a}},
      {"multi_margin_loss", [](In in) { return multi_margin_loss(in[0], beside(in, tensor({2, 0, 1})), {.p = 2, .margin = 9, .reduction = kNone}); }, {a}},
      {"multilabel_margin_loss", [](In in) { return multilabel_margin_loss(in[0] * 0.1, beside(in, tensor({{2, 0, -1, 0}, {1, -1, 0, 0}, {3, 2, 1, -1}})), {kNone}); }, {a}},
      {"multilabel_soft_margin_loss", [](In in) { return multilabel_soft_margin_loss(in[0], in[1], {.reduction = kNone}); }, {a, b}},
      {"triplet_margin_loss", [](In in) { return triplet_margin_loss(in[0], in[1], in[2], {.margin = 30, .swap = true, .reduction = kNone}); }, {a, b, c}},
  };
  // clang-format on
  for (const GradientCase& gradient : cases) check_gradients(gradient);
}

TEST_CASE("margin losses: nothing broadcasts, and errors name the tensors") {
  const Tensor x = zeros({4, 2}), y = ones({4});
  CHECK_THROWS_WITH_AS(
      margin_ranking_loss(y, y, ones({4, 1})),
      Contains("margin_ranking_loss: x and y must have one shape; losses do not broadcast (x: "
               "f32[4]@cpu, y: f32[4,1]@cpu)"),
      ShapeError);
  CHECK_THROWS_AS(margin_ranking_loss(y, ones({1}), y), ShapeError);
  CHECK_THROWS_AS(hinge_embedding_loss(x, y), ShapeError);
  CHECK_THROWS_AS(cosine_embedding_loss(x, x, ones({2})), ShapeError);
  CHECK_THROWS_AS(cosine_embedding_loss(x, x, ones({4, 1})), ShapeError);
  CHECK_THROWS_AS(cosine_embedding_loss(x, zeros({1, 2}), y), ShapeError);
  CHECK_THROWS_AS(triplet_margin_loss(x, x, zeros({2})), ShapeError);
  CHECK_THROWS_AS(triplet_margin_loss(x, x, zeros({4, 2}, {.dtype = kI32})), DTypeError);
}
