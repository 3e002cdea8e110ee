// conv3d and pool3d against their definitions, written as loops; gradients, errors.
#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "compare.h"
#include "lathe/ops/conv3d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/pool3d.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Axis {
  int64_t size, kernel, stride, pad, dilation = 1;

  int64_t out(bool ceil_mode = false) const {
    const int64_t span = size + 2 * pad - dilation * (kernel - 1) - 1;
    int64_t n = (span + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    if (ceil_mode && (n - 1) * stride >= size + pad) --n;  // it would begin in the padding
    return n;
  }
  int64_t at(int64_t window, int64_t tap) const { return window * stride - pad + tap * dilation; }
  bool inside(int64_t i) const { return 0 <= i && i < size; }
};

std::array<Axis, 3> axes_of(const Tensor& x, const Triple& kernel, const Triple& stride,
                            const Triple& pad, const Triple& dilation = 1) {
  return {
      Axis{x.dim(2), kernel.depth, stride.depth, pad.depth, dilation.depth},
      Axis{x.dim(3), kernel.plane.rows, stride.plane.rows, pad.plane.rows, dilation.plane.rows},
      Axis{x.dim(4), kernel.plane.cols, stride.plane.cols, pad.plane.cols, dilation.plane.cols}};
}

/// Calls f(window's index, element's index in its plane or -1, tap) for each window of one channel.
template <class F>
void for_windows(const std::array<Axis, 3>& a, bool ceil_mode, F f) {
  int64_t window = 0;
  for (int64_t i = 0; i < a[0].out(ceil_mode); ++i) {
    for (int64_t j = 0; j < a[1].out(ceil_mode); ++j) {
      for (int64_t k = 0; k < a[2].out(ceil_mode); ++k, ++window) {
        int64_t tap = 0;
        for (int64_t t = 0; t < a[0].kernel; ++t) {
          for (int64_t r = 0; r < a[1].kernel; ++r) {
            for (int64_t s = 0; s < a[2].kernel; ++s, ++tap) {
              const int64_t d = a[0].at(i, t), h = a[1].at(j, r), w = a[2].at(k, s);
              const bool inside = a[0].inside(d) && a[1].inside(h) && a[2].inside(w);
              const bool padded =
                  d < a[0].size + a[0].pad && h < a[1].size + a[1].pad && w < a[2].size + a[2].pad;
              f(window, inside ? (d * a[1].size + h) * a[2].size + w : -1, tap, padded);
            }
          }
        }
      }
    }
  }
}

Shape result_shape(const Tensor& x, int64_t channels, const std::array<Axis, 3>& a,
                   bool ceil_mode) {
  return {x.dim(0), channels, a[0].out(ceil_mode), a[1].out(ceil_mode), a[2].out(ceil_mode)};
}

Tensor naive_conv3d(const Tensor& x, const Tensor& w, const Conv3dOptions& o) {
  const auto axes = axes_of(x, {w.dim(2), w.dim(3), w.dim(4)}, o.stride, o.pad, o.dilation);
  const Shape shape = result_shape(x, w.dim(0), axes, false);
  const Tensor y = zeros(shape, {.dtype = kF64});
  const auto xs = x.to_vector<double>(), ws = w.to_vector<double>();
  std::vector<double> ys(static_cast<size_t>(y.numel()));
  const int64_t volume = x.dim(2) * x.dim(3) * x.dim(4), out = shape[2] * shape[3] * shape[4];
  const int64_t taps = w.dim(2) * w.dim(3) * w.dim(4), per_group = w.dim(1);
  for (int64_t n = 0; n < x.dim(0); ++n) {
    for (int64_t k = 0; k < w.dim(0); ++k) {
      const int64_t first = k / (w.dim(0) / o.groups) * per_group;
      for (int64_t c = 0; c < per_group; ++c) {
        for_windows(axes, false, [&](int64_t window, int64_t at, int64_t tap, bool) {
          if (at < 0) return;
          ys[static_cast<size_t>((n * w.dim(0) + k) * out + window)] +=
              xs[static_cast<size_t>((n * x.dim(1) + first + c) * volume + at)] *
              ws[static_cast<size_t>((k * per_group + c) * taps + tap)];
        });
      }
    }
  }
  const Tensor sums = tensor(ys, {.dtype = kF64}).view(shape);
  return o.bias.defined() ? sums + o.bias.view({1, -1, 1, 1, 1}) : sums;
}

struct Window {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  int64_t real = 0, padded = 0;
};

std::vector<Window> naive_windows(const Tensor& x, const std::array<Axis, 3>& axes,
                                  bool ceil_mode) {
  const auto xs = x.to_vector<double>();
  const int64_t planes = x.dim(0) * x.dim(1), volume = x.numel() / planes;
  const Shape shape = result_shape(x, x.dim(1), axes, ceil_mode);
  const int64_t out = shape[2] * shape[3] * shape[4];
  std::vector<Window> all(static_cast<size_t>(planes * out));
  for (int64_t p = 0; p < planes; ++p) {
    for_windows(axes, ceil_mode, [&](int64_t window, int64_t at, int64_t, bool padded) {
      Window& w = all[static_cast<size_t>(p * out + window)];
      if (padded) ++w.padded;
      if (at < 0) return;
      const double value = xs[static_cast<size_t>(p * volume + at)];
      w.largest = std::max(w.largest, value);
      w.sum += value;
      ++w.real;
    });
  }
  return all;
}

template <class F>
Tensor from_windows(const Tensor& x, const std::array<Axis, 3>& axes, bool ceil_mode, F value) {
  std::vector<double> ys;
  for (const Window& w : naive_windows(x, axes, ceil_mode)) ys.push_back(value(w));
  return tensor(ys, {.dtype = kF64}).view(result_shape(x, x.dim(1), axes, ceil_mode));
}

}  // namespace

TEST_CASE("conv3d: values agree with the definition") {
  const Tensor x = f64({2, 4, 5, 7, 6});
  const Conv3dOptions all[] = {
      {},
      {.stride = {2, 1, 3}, .pad = {1, 0, 2}},
      {.bias = f64({6}), .pad = 1, .dilation = {2, 1, 1}},
      {.bias = f64({6}), .stride = {1, 2, 1}, .pad = {0, 1, 1}, .groups = 2},
  };
  for (const Conv3dOptions& o : all) {
    for (const Shape& kernel : {Shape{3, 3, 3}, Shape{1, 3, 2}, Shape{2, 1, 1}}) {
      const Tensor w = f64({6, 4 / o.groups, kernel[0], kernel[1], kernel[2]});
      CAPTURE(w);
      CHECK(difference(conv3d(x, w, o), naive_conv3d(x, w, o), 1e-12) == "");
      CHECK(
          difference(conv3d(x.permute({0, 4, 1, 2, 3}).contiguous().permute({0, 2, 3, 4, 1}), w, o),
                     naive_conv3d(x, w, o), 1e-12) == "");
    }
  }
  const Tensor w = f64({6, 4, 3, 3, 3});
  CHECK(difference(conv3d(x[0], w), conv3d(x, w)[0], 0) == "");
}

TEST_CASE("conv3d: gradients agree with finite differences, once and twice") {
  const auto f = [](const Tensors& in) {
    return conv3d(
        in[0], in[1],
        {.bias = in[2], .stride = {1, 2, 1}, .pad = 1, .dilation = {2, 1, 1}, .groups = 2});
  };
  check_gradients({"conv3d", f, {f64({1, 2, 4, 3, 3}), f64({2, 1, 2, 2, 3}), f64({2})}});
}

TEST_CASE("conv3d: errors name conv3d and the shapes that it was given") {
  const Tensor x = zeros({2, 4, 5, 7, 7});
  CHECK_THROWS_WITH_AS(conv3d(x, zeros({6, 4, 3, 3})),
                       doctest::Contains("conv3d: x and w must be [N,C,D,H,W] and "
                                         "[K,C/groups,T,R,S] (x: f32[2,4,5,7,7]@cpu"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(conv3d(x, zeros({6, 4, 6, 3, 3})),
                       doctest::Contains("conv3d: the kernel spans 6 planes but the padded input "
                                         "has 5"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(conv3d(x, zeros({6, 3, 3, 3, 3})),
                       doctest::Contains("conv3d: x has 4 channels but w expects 3"), ShapeError);
  CHECK_THROWS_WITH_AS(conv3d(x, zeros({6, 4, 3, 3, 3}), {.stride = {0, 1, 1}}),
                       doctest::Contains("conv3d: stride must be positive"), ValueError);
}

TEST_CASE("pool3d: values agree with the definition") {
  const Tensor x = f64({2, 3, 5, 7, 6});
  struct Case {
    Triple kernel, stride, pad;
    bool ceil_mode;
  };
  for (const Case& c :
       {Case{2, 2, 0, false}, Case{{3, 2, 2}, {2, 1, 2}, {1, 0, 1}, false}, Case{2, 2, 0, true},
        Case{3, 2, 1, true}, Case{{1, 3, 3}, 1, {0, 1, 1}, false}}) {
    const auto axes = axes_of(x, c.kernel, c.stride, c.pad);
    CAPTURE(axes[0].kernel);
    CAPTURE(c.ceil_mode);
    const auto [kernel, stride, pad, ceil_mode] = c;
    CHECK(difference(max_pool3d(x, {kernel, stride, pad, 1, ceil_mode}),
                     from_windows(x, axes, ceil_mode, [](const Window& w) { return w.largest; }),
                     0) == "");
    CHECK(difference(
              avg_pool3d(x, {kernel, stride, pad, ceil_mode, true}),
              from_windows(x, axes, ceil_mode,
                           [](const Window& w) { return w.sum / static_cast<double>(w.padded); }),
              1e-12) == "");
    CHECK(difference(
              avg_pool3d(x, {kernel, stride, pad, ceil_mode, false}),
              from_windows(x, axes, ceil_mode,
                           [](const Window& w) { return w.sum / static_cast<double>(w.real); }),
              1e-12) == "");
  }
  const auto wide = axes_of(x, 2, 1, 0, {2, 1, 3});
  CHECK(difference(max_pool3d(x, {.kernel = 2, .stride = 1, .dilation = {2, 1, 3}}),
                   from_windows(x, wide, false, [](const Window& w) { return w.largest; }),
                   0) == "");
  CHECK(difference(max_pool3d(x, {.kernel = 2}), max_pool3d(x, {.kernel = 2, .stride = 2}), 0) ==
        "");
  CHECK(difference(max_pool3d(x[0], {}), max_pool3d(x, {})[0], 0) == "");
  CHECK(difference(adaptive_avg_pool3d(x, 1), mean(x, {2, 3, 4}, {.keepdim = true}), 1e-12) == "");
  const Tensor halves = adaptive_avg_pool3d(x, {2, 7, 6});  // planes 0 to 2, and 2 to 4
  CHECK(difference(halves.select(2, 0), mean(x.slice(2, 0, 3), {2}), 1e-12) == "");
  CHECK(difference(halves.select(2, 1), mean(x.slice(2, 2, 5), {2}), 1e-12) == "");
}

TEST_CASE("pool3d: gradients agree with finite differences, once and twice") {
  const auto largest = [](const Tensors& in) {
    return max_pool3d(in[0], {.kernel = 2, .stride = 1, .pad = {1, 0, 0}});
  };
  const auto average = [](const Tensors& in) {
    return avg_pool3d(in[0], {.kernel = {2, 3, 1}, .stride = 1, .pad = {1, 1, 0}});
  };
  const auto adaptive = [](const Tensors& in) { return adaptive_avg_pool3d(in[0], {2, 1, 2}); };
  const Tensor x = f64({1, 2, 3, 3, 4});
  check_gradients({"max_pool3d", largest, {x}});
  check_gradients({"avg_pool3d", average, {x}});
  check_gradients({"adaptive_avg_pool3d", adaptive, {x}});
}

TEST_CASE("max_pool3d: the first of equal elements by depth, row, column gets the gradient") {
  const Tensor x = tensor({0.f, 1.f, 1.f, 0.f}).view({1, 1, 2, 1, 2});
  x.requires_grad_();
  sum(max_pool3d(x, {.kernel = {2, 1, 2}})).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, 1, 0, 0});
}

TEST_CASE("conv3d: padding of the depth is never in memory") {
  const int64_t far = int64_t{1} << 40;
  const Tensor y = conv3d(ones({1, 1, 1, 1, 1}), ones({1, 1, 1, 1, 1}),
                          {.stride = {far, 1, 1}, .pad = {far, 0, 0}});
  CHECK(y.to_vector<float>() == std::vector<float>{0, 1, 0});
}

TEST_CASE("pool3d: windows that do not fit are refused by name") {
  const Tensor x = zeros({1, 1, 2, 4, 4});
  CHECK_THROWS_WITH_AS(max_pool3d(x, {.kernel = {5, 1, 1}}),
                       doctest::Contains("max_pool3d: a window spans 5 planes but the padded input "
                                         "has 2 (x: f32[1,1,2,4,4]@cpu)"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(avg_pool3d(x, {.kernel = {1, 1, 0}}),
                       doctest::Contains("avg_pool3d: the columns of a window"), ValueError);
}

TEST_CASE("pool3d: x of another number of dimensions is refused by name") {
  CHECK_THROWS_WITH_AS(avg_pool3d(zeros({4, 4, 4}), {}),
                       doctest::Contains("avg_pool3d: x must be [N,C,D,H,W] or [C,D,H,W] (x: "
                                         "f32[4,4,4]@cpu)"),
                       ShapeError);
}
