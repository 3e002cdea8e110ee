// grid_sample and affine_grid against PyTorch's numbers (2.15, f64).
#include "lathe/ops/grid_sample.h"

#include <limits>

#include "compare.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using Values = std::vector<double>;
using In = const Tensors&;
constexpr auto kBilinear = SampleMode::kBilinear, kNearest = SampleMode::kNearest;
constexpr auto kZeros = SamplePadding::kZeros, kBorder = SamplePadding::kBorder;
constexpr auto kReflection = SamplePadding::kReflection;

/// x[i] = 7 i mod 11.
Tensor images() { return remainder(arange(24, {.dtype = kF64}) * 7, 11).view({2, 1, 3, 4}); }
Tensor points() {
  const Values xy = {-1, -1, 1,   1,    0.3,  -0.2, -1.4, 0.1, 0.05,  1.3,  2.6, -3.2,
                     0,  0,  0.9, -0.9, -0.6, 0.55, 1.2,  0.4, -0.25, -1.7, 0.5, 0.75};
  return tensor(xy).view({2, 2, 3, 2});
}

const struct {
  GridSampleOptions opt;
  Values want;
} kCases[] = {
    {{kBilinear, kZeros, false}, {0, 0, 7.13, 0, 0.28, 0, 7, 2.73, 6.3275, 0.46, 0, 3.0625}},
    {{kBilinear, kZeros, true}, {0, 0, 7.56, 2.2, 3.99, 0, 7, 6.1, 5.87, 2.38, 1.1625, 2.3125}},
    {{kBilinear, kBorder, false}, {0, 0, 7.13, 5.25, 5.6, 10, 7, 6, 6.3275, 4.6, 3, 3.5}},
    {{kBilinear, kBorder, true}, {0, 0, 7.56, 5.5, 5.7, 10, 7, 6.1, 5.87, 3.4, 3.875, 2.3125}},
    {{kBilinear, kReflection, false}, {0, 0, 7.13, 4.545, 5.6, 3.1, 7, 6, 6.3275, 4.6, 6.3, 3.5}},
    {{kBilinear, kReflection, true},
     {0, 0, 7.56, 3.76, 5.7975, 4.88, 7, 6.1, 5.87, 3.28, 7.1125, 2.3125}},
    {{kNearest, kZeros, false}, {0, 0, 9, 0, 0, 0, 5, 6, 8, 0, 0, 0}},
    {{kNearest, kZeros, true}, {0, 0, 9, 0, 4, 0, 5, 6, 4, 1, 0, 0}},
    {{kNearest, kBorder, false}, {0, 0, 9, 6, 4, 10, 5, 6, 8, 7, 3, 0}},
    {{kNearest, kBorder, true}, {0, 0, 9, 6, 4, 10, 5, 6, 4, 1, 3, 0}},
    {{kNearest, kReflection, false}, {0, 0, 9, 6, 4, 1, 5, 6, 8, 7, 9, 0}},
    {{kNearest, kReflection, true}, {0, 0, 9, 2, 4, 8, 5, 6, 4, 1, 9, 0}},
};

}  // namespace

TEST_CASE("grid_sample: every mode and padding, in every layout, on every device") {
  for (const Device device : devices()) {
    for (const Layout& layout : layouts()) {
      for (size_t i = 0; i < std::size(kCases); ++i) {
        CAPTURE(concat("case ", i, " ", layout.name, " on ", device));
        const Tensor x = layout.apply(images()).to(device), at = layout.apply(points()).to(device);
        const Tensor y = grid_sample(x, at, kCases[i].opt);
        CHECK(y.shape() == Shape{2, 1, 2, 3});
        CHECK(difference(y.cpu(), kCases[i].want, 1e-12) == "");
      }
    }
  }
  for (const DType dtype : {kF32, kF16, kBF16}) {
    const Tensor y = grid_sample(images().to(dtype), points().to(dtype), {.padding = kBorder});
    CHECK(y.dtype() == dtype);
    CHECK(difference(y, kCases[2].want, 8 * tolerance_of(dtype)) == "");
  }
  CHECK(grid_sample(zeros({2, 3, 4, 5}), zeros({2, 0, 6, 2})).shape() == Shape{2, 3, 0, 6});
  CHECK(grid_sample(ones({1, 1, 1, 1}), full({1, 1, 1, 2}, 9.0),
                    {.padding = kReflection, .align_corners = true})
            .item<float>() == 1);
}

TEST_CASE("grid_sample: pixels behind the first 2^24 of an image in f32") {
  const int64_t size = 4097;
  const Tensor x = zeros({size, size}), columns = arange(size, {.dtype = kF32});
  x.select(0, size - 1).copy_(columns);
  const float step = 2.0f / 4096;  // from one column to the next
  const Tensor at = tensor({-1 + step, 1.0f, -1 + 7 * step, 1.0f}).view({1, 1, 2, 2});
  for (const SampleMode mode : {kNearest, kBilinear}) {
    const Tensor y =
        grid_sample(x.view({1, 1, size, size}), at, {.mode = mode, .align_corners = true});
    CHECK(difference(y, {1, 7}, 0) == "");
  }
}

TEST_CASE("grid_sample: of kNearest, a point that is infinite or NaN lies outside") {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = images().slice(0, 0, 1) + 1;
  const Tensor at = tensor({inf, 0.0, nan, 0.0, 0.0, -inf, 0.0, nan, 0.1, 0.2}, kF64)
                        .view({1, 1, 5, 2})
                        .requires_grad_();
  const Tensor y = grid_sample(x, at, {.mode = kNearest});
  CHECK(difference(y.detach(), {0, 0, 0, 0, 10}, 0) == "");
  y.sum().backward();
  CHECK(at.grad().to_vector<double>() == Values(10, 0));
}

TEST_CASE(
    "grid_sample: a NaN inside a border or a reflection is the first pixel, without gradient") {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Values xy = {nan, 0.2, 0.3, nan, nan, nan, inf, 0.1, -inf, 0.1, 1e30, 0.1};
  const struct {
    GridSampleOptions opt;
    Values want;  // PyTorch's
  } cases[] = {{{kBilinear, kBorder, false}, {6.2, 3.1, 1, 8.6, 5.6, 8.6}},
               {{kNearest, kBorder, false}, {5, 3, 1, 8, 5, 8}},
               {{kBilinear, kReflection, false}, {6.2, 3.1, 1, 5.6, 5.6, 5.6}},
               {{kNearest, kReflection, false}, {5, 3, 1, 5, 5, 5}}};
  for (const Device device : devices()) {
    for (const auto& [opt, want] : cases) {
      CAPTURE(concat(static_cast<int>(opt.mode), " ", static_cast<int>(opt.padding)));
      const TensorOptions as{.dtype = kF64, .device = device};
      const Tensor x = (arange(12, as) + 1).view({1, 1, 3, 4}).detach().requires_grad_();
      const Tensor at = tensor(xy).to(device).view({1, 1, 6, 2}).detach().requires_grad_();
      const Tensor y = grid_sample(x, at, opt);
      CHECK(difference(y.detach().cpu(), want, 1e-12) == "");
      y.sum().backward();
      CHECK(x.grad().sum().item<double>() == doctest::Approx(6));
      // x grows by 1 from column to column and by 4 from row to row: 4/2 and 3/2 times that.
      const Values slopes = {0, 6, 2, 0, 0, 0, 0, 6, 0, 6, 0, 6};
      const Values got = at.grad().to_vector<double>();
      CHECK(difference(tensor(got), opt.mode == kNearest ? Values(12, 0) : slopes, 1e-12) == "");
    }
  }
}

TEST_CASE("affine_grid: values, and grid_sample of the identity is the image") {
  const Tensor theta = tensor({{0.5, 0.1, 0.2}, {-0.3, 0.8, -0.1}}, kF64).view({1, 2, 3});
  const std::pair<bool, Values> cases[] = {
      {false,
       {-0.183333333333, -0.3, 0.15, -0.5, 0.483333333333, -0.7, -0.083333333333, 0.5, 0.25, 0.3,
        0.583333333333, 0.1}},
      {true, {-0.4, -0.6, 0.1, -0.9, 0.6, -1.2, -0.2, 1, 0.3, 0.7, 0.8, 0.4}},
  };
  for (const auto& [corners, want] : cases) {
    CHECK(affine_grid(theta, 2, 3, corners).shape() == Shape{1, 2, 3, 2});
    CHECK(difference(affine_grid(theta, 2, 3, corners), want, 1e-12) == "");
    const Tensor same = eye(2, 3, {.dtype = kF64}).view({1, 2, 3}).expand({2, 2, 3});
    const Tensor y =
        grid_sample(images(), affine_grid(same, 3, 4, corners), {.align_corners = corners});
    CHECK(difference(y, images(), 1e-12) == "");
  }
}

TEST_CASE("grid_sample: gradients agree with finite differences, twice") {
  manual_seed(51);
  const Tensor x = f64({2, 2, 3, 4}), at = points() * 0.93 + 0.011;  // between the kinks
  for (const bool corners : {false, true}) {
    for (const SamplePadding padding : {kZeros, kBorder, kReflection}) {
      const GridSampleOptions opt{.padding = padding, .align_corners = corners};
      check_gradients(
          {"grid_sample", [&](In in) { return grid_sample(in[0], in[1], opt); }, {x, at}});
    }
  }
  const GridSampleOptions nearest{.mode = kNearest, .padding = kBorder};
  check_gradients({"grid_sample nearest",
                   [&](In in) { return grid_sample(in[0], beside(in, at), nearest); },
                   {x}});
  check_gradients(
      {"affine_grid", [](In in) { return affine_grid(in[0], 2, 3); }, {f64({2, 2, 3})}});
}

TEST_CASE("grid_sample: errors name the op and the tensors") {
  CHECK_THROWS_WITH_AS(grid_sample(zeros({2, 1, 3, 3}), zeros({1, 2, 2, 2})),
                       Contains("grid_sample: x must be [N,C,H,W]"), ShapeError);
  CHECK_THROWS_AS(grid_sample(zeros({1, 1, 0, 3}), zeros({1, 2, 2, 2})), ShapeError);
  CHECK_THROWS_AS(grid_sample(zeros({1, 1, 3, 3}), zeros({1, 2, 2, 2}, kF64)), DTypeError);
  CHECK_THROWS_AS(affine_grid(zeros({2, 3}), 2, 3), ShapeError);
  CHECK_THROWS_AS(affine_grid(zeros({1, 2, 3}), -1, 3), ValueError);
}
