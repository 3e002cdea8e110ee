// Pooling against the definition, window by window.
#include "lathe/ops/pool2d.h"

#include "compare.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/index.h"
#include "lathe/ops/memory_format.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const double kInf = std::numeric_limits<double>::infinity();

struct Case {
  Shape x;
  MaxPool2dOptions opt;
};
const Case kCases[] = {
    {{2, 3, 8, 8}, {.kernel = 2}},
    {{1, 5, 7, 9}, {.kernel = 3, .stride = 2, .pad = 1}},  // the ResNet stem
    {{2, 2, 7, 6}, {.kernel = {3, 2}, .stride = {1, 3}, .pad = {1, 0}}},
    {{1, 2, 9, 9}, {.kernel = 3, .stride = 1, .dilation = 2}},
    {{1, 2, 5, 5}, {.kernel = 2, .ceil_mode = true}},  // the last window is cut
    {{2, 67, 5, 7}, {.kernel = {2, 3}}},               // the last row and column are in no window
    {{1, 33, 5, 4}, {.kernel = {3, 2}, .ceil_mode = true}},
    {{1, 1, 4, 4}, {.kernel = 3, .stride = 2, .pad = 1, .ceil_mode = true}},
    {{1, 2, 4, 4},
     {.kernel = 1, .stride = 3, .ceil_mode = true}},  // ceil's window would start outside
    {{1, 2, 2, 3},
     {.kernel = {3, 5}, .stride = {2, 3}, .ceil_mode = true}},  // the only window is cut
    {{2, 3, 4, 5}, {.kernel = {4, 5}}},                         // global
    {{1, 17, 1, 1}, {.kernel = 2, .stride = 1, .pad = 1}},
    {{1, 2, 3, 3},
     {.kernel = 2, .stride = 4, .pad = 1, .dilation = 4}},  // only padding in a window
    {{0, 3, 4, 4}, {.kernel = 2}},
    {{2, 0, 4, 4}, {.kernel = 2}},
};

/// P or Q from the definition: windows are added while they fit (or, in ceil mode, still start
/// inside).
int64_t windows(int64_t in, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation,
                bool ceil) {
  const int64_t span = dilation * (kernel - 1) + 1;
  int64_t count = 0;
  for (int64_t start = -pad;; start += stride) {
    const bool fits = start + span <= in + pad;
    const bool partly = ceil && start < in && start - stride + span < in + pad;
    if (!fits && !partly) return count;
    ++count;
  }
}

struct Pooled {
  Shape shape;
  std::vector<double> y;
  std::vector<double> index;
};

/// Visits every window's elements by definition: f(value index in the plane) for those inside.
template <class F>
void each_window(const Case& c, Shape& shape, F f) {
  const auto& o = c.opt;
  const int64_t sr = o.stride.rows ? o.stride.rows : o.kernel.rows;
  const int64_t sc = o.stride.cols ? o.stride.cols : o.kernel.cols;
  const int64_t p = windows(c.x[2], o.kernel.rows, sr, o.pad.rows, o.dilation.rows, o.ceil_mode);
  const int64_t q = windows(c.x[3], o.kernel.cols, sc, o.pad.cols, o.dilation.cols, o.ceil_mode);
  shape = {c.x[0], c.x[1], p, q};
  for (int64_t plane = 0; plane < c.x[0] * c.x[1]; ++plane) {
    for (int64_t i = 0; i < p * q; ++i) {
      std::vector<int64_t> inside;
      int64_t padded = 0;  // elements in the padded input
      for (int64_t r = 0; r < o.kernel.rows; ++r) {
        for (int64_t s = 0; s < o.kernel.cols; ++s) {
          const int64_t h = i / q * sr - o.pad.rows + r * o.dilation.rows;
          const int64_t w = i % q * sc - o.pad.cols + s * o.dilation.cols;
          if (h >= 0 && h < c.x[2] && w >= 0 && w < c.x[3]) inside.push_back(h * c.x[3] + w);
          if (h < c.x[2] + o.pad.rows && w < c.x[3] + o.pad.cols) ++padded;
        }
      }
      f(plane * c.x[2] * c.x[3], inside, padded);
    }
  }
}

Pooled max_reference(const Case& c, const std::vector<double>& x) {
  Pooled out;
  each_window(c, out.shape, [&](int64_t base, const std::vector<int64_t>& inside, int64_t) {
    double best = -kInf;
    int64_t at = inside.empty() ? -1 : inside.front();
    for (const int64_t i : inside) {
      const double v = x[static_cast<size_t>(base + i)];
      if (v > best || (std::isnan(v) && !std::isnan(best))) best = v, at = i;
    }
    out.y.push_back(best);
    out.index.push_back(static_cast<double>(at));
  });
  return out;
}

Pooled mean_reference(const Case& c, const std::vector<double>& x, bool count_pad) {
  Pooled out;
  each_window(c, out.shape, [&](int64_t base, const std::vector<int64_t>& inside, int64_t padded) {
    double sum = 0;
    for (const int64_t i : inside) sum += x[static_cast<size_t>(base + i)];
    out.y.push_back(sum /
                    static_cast<double>(count_pad ? padded : static_cast<int64_t>(inside.size())));
  });
  return out;
}

/// x as it is, NHWC, transposed and sliced.
std::vector<Tensor> variants(const Tensor& x) {
  std::vector<Tensor> all{x.contiguous(kChannelsLast)};
  for (const Layout& layout : layouts()) all.push_back(layout.apply(x));
  return all;
}

}  // namespace

TEST_CASE("max_pool2d: values and places are those of the definition, in every layout and dtype") {
  for (const Case& c : kCases) {
    for (const DType dtype : {kF32, kF64, kF16, kBF16}) {
      const Tensor dense = cast(randn(c.x), dtype);
      for (const Tensor& x : variants(dense)) {
        CAPTURE(concat(x, " ", x.strides()));
        const Pooled want = max_reference(c, dense.to_vector<double>());
        const auto [y, index] = max_pool2d_with_indices(x, c.opt);
        CHECK(y.shape() == want.shape);
        CHECK(y.dtype() == dtype);
        CHECK(difference(y, want.y, 0) == "");
        CHECK(difference(index, want.index, 0) == "");
        CHECK((y.is_contiguous(kChannelsLast) || x.is_contiguous() ||
               !x.is_contiguous(kChannelsLast)));
      }
    }
  }
}

TEST_CASE("max_pool2d: of equal values the first wins; NaN passes; -inf has a place") {
  for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
    const auto places = [&](const Tensor& x) {
      return max_pool2d_with_indices(x.contiguous(format), {.kernel = 2})
          .indices.to_vector<int64_t>();
    };
    CHECK(places(ones({1, 2, 2, 2})) == std::vector<int64_t>{0, 0});
    CHECK(places(full({1, 2, 2, 2}, -kInf)) == std::vector<int64_t>{0, 0});
    const Tensor x = ones({1, 2, 2, 2});
    x.select(3, 1).fill_(std::nan(""));
    CHECK(places(x) == std::vector<int64_t>{1, 1});
    CHECK(std::isnan(max_pool2d(x.contiguous(format), {.kernel = 2}).to_vector<float>()[0]));
  }
}

TEST_CASE("max_pool2d: ties send the gradient to the first element, overlaps add up") {
  const Tensor x = ones({1, 1, 3, 3}).requires_grad_();
  max_pool2d(x, {.kernel = 2, .stride = 1})
      .backward(tensor({1.f, 2.f, 3.f, 4.f}).view({1, 1, 2, 2}));
  CHECK(difference(x.grad(), {1, 2, 0, 3, 4, 0, 0, 0, 0}, 0) == "");
  const Tensor peak = zeros({1, 1, 3, 3});
  peak.select(2, 1).select(2, 1).fill_(5.0);
  peak.requires_grad_();
  max_pool2d(peak, {.kernel = 2, .stride = 1}).backward(ones({1, 1, 2, 2}));
  CHECK(difference(peak.grad(), {0, 0, 0, 0, 4, 0, 0, 0, 0}, 0) == "");
}

TEST_CASE("max_pool2d: dx is dy at the places of the maxima, in every layout and dtype") {
  for (const Case& c : kCases) {
    for (const DType dtype : {kF32, kF64, kF16, kBF16}) {
      for (const Tensor& x : variants(cast(randn(c.x), dtype))) {
        CAPTURE(concat(x, " ", x.strides()));
        Shape shape;
        std::vector<double> want(static_cast<size_t>(x.numel()));
        const Pooled places = max_reference(c, x.to_vector<double>());
        const Tensor dy = cast(randint(-8, 9, places.shape), dtype);  // whose sums are exact
        const std::vector<double> dy_values = dy.to_vector<double>();
        size_t i = 0;
        each_window(c, shape, [&](int64_t base, const std::vector<int64_t>&, int64_t) {
          const double at = places.index[i];
          if (at >= 0) want[static_cast<size_t>(base) + static_cast<size_t>(at)] += dy_values[i];
          ++i;
        });
        const Tensor leaf = x.detach().requires_grad_();
        max_pool2d(leaf, c.opt).backward(dy);
        CHECK(difference(leaf.grad(), want, 0) == "");
      }
    }
  }
}

TEST_CASE("avg_pool2d: means are those of the definition, in every layout and dtype") {
  for (const Case& c : kCases) {
    if (!(c.opt.dilation == Pair(1))) continue;
    for (const bool count_pad : {true, false}) {
      for (const DType dtype : {kF32, kF64, kF16, kBF16}) {
        const Tensor dense = cast(randn(c.x), dtype);
        for (const Tensor& x : variants(dense)) {
          CAPTURE(concat(x, " ", x.strides(), count_pad));
          const Pooled want = mean_reference(c, dense.to_vector<double>(), count_pad);
          const Tensor y = avg_pool2d(x, {.kernel = c.opt.kernel,
                                          .stride = c.opt.stride,
                                          .pad = c.opt.pad,
                                          .ceil_mode = c.opt.ceil_mode,
                                          .count_include_pad = count_pad});
          CHECK(y.shape() == want.shape);
          CHECK(difference(y, want.y, tolerance_of(dtype)) == "");
          CHECK((y.is_contiguous(kChannelsLast) || x.is_contiguous() ||
                 !x.is_contiguous(kChannelsLast)));
        }
      }
    }
  }
}

TEST_CASE("avg_pool2d: divisor_override divides every window's sum") {
  const Tensor x = view(arange(0.0, 12.0), {1, 1, 3, 4});
  // F.avg_pool2d(x, 2, stride=1, padding=1, divisor_override=3); what follows as its thirds
  const std::vector<double> sums{0,  1,  3,  5,  3,  4, 10, 14, 18, 10,
                                 12, 26, 30, 34, 18, 8, 17, 19, 21, 11};
  std::vector<double> thirds;
  for (const double s : sums) thirds.push_back(s / 3);
  for (const Tensor& t : variants(x)) {
    for (const bool count_pad : {true, false}) {
      CHECK(difference(avg_pool2d(t, {.kernel = 2,
                                      .stride = 1,
                                      .pad = 1,
                                      .count_include_pad = count_pad,
                                      .divisor_override = 3}),
                       thirds, 1e-6) == "");
    }
    // F.avg_pool2d(x, 2, stride=2, ceil_mode=True, divisor_override=-2)
    CHECK(difference(avg_pool2d(t, {.kernel = 2, .ceil_mode = true, .divisor_override = -2}),
                     {-5, -9, -8.5, -10.5}, 0) == "");
  }
  check_gradients(
      {"avg_pool2d",
       [](const Tensors& in) {
         return avg_pool2d(in[0], {.kernel = {2, 3}, .stride = 1, .pad = 1, .divisor_override = 5});
       },
       {f64({2, 2, 5, 4})}});
  CHECK_THROWS_WITH_AS(avg_pool2d(x, {.divisor_override = 0}),
                       doctest::Contains("avg_pool2d: divisor_override must not be 0"), ValueError);
}

TEST_CASE("avg_pool2d: the mean of equal numbers is that number, to the bit") {
  CHECK(difference(avg_pool2d(full({1, 2, 9, 9}, 0.1f), {.kernel = 3}), full({1, 2, 3, 3}, 0.1f),
                   1e-7) == "");
  CHECK(difference(avg_pool2d(full({1, 1, 7, 7}, 3.0), {.kernel = 7}), {3}, 0) == "");
}

TEST_CASE("adaptive_avg_pool2d: windows cover the plane; 1 is the mean of the plane") {
  const Tensor x = randn({2, 5, 7, 10});
  for (const Tensor& t : variants(x)) {
    const Tensor of_plane = adaptive_avg_pool2d(t, 1);
    CHECK(difference(of_plane, mean(x, {2, 3}, {.keepdim = true}), 1e-6) == "");
    CHECK((of_plane.strides() == channels_last_strides(of_plane.shape())) ==
          (memory_format_of(t) == kChannelsLast));
    const Tensor y = adaptive_avg_pool2d(t, {3, 4});
    CHECK(y.shape() == Shape{2, 5, 3, 4});
    // rows [0,3) [2,5) [4,7), columns [0,3) [2,5) [5,8) [7,10)
    const std::vector<std::array<int64_t, 2>> rows{{0, 3}, {2, 5}, {4, 7}},
        cols{{0, 3}, {2, 5}, {5, 8}, {7, 10}};
    for (int64_t p = 0; p < 3; ++p) {
      for (int64_t q = 0; q < 4; ++q) {
        const auto [h, hs] = rows[static_cast<size_t>(p)];
        const auto [w, ws] = cols[static_cast<size_t>(q)];
        const Tensor window = x.narrow(2, h, hs - h).narrow(3, w, ws - w);
        CHECK(difference(y.select(2, p).select(2, q), mean(window, {2, 3}), 1e-6) == "");
      }
    }
    CHECK(difference(adaptive_avg_pool2d(t, {7, 10}), x, 0) == "");
    CHECK(adaptive_avg_pool2d(t, {9, 20}).shape() == Shape{2, 5, 9, 20});  // larger than the input
  }
}

TEST_CASE("pooling: gradients agree with finite differences, twice") {
  const Tensor x = f64({2, 2, 5, 4});
  check_gradients(
      {"max_pool2d",
       [](const Tensors& in) { return max_pool2d(in[0], {.kernel = 3, .stride = 2, .pad = 1}); },
       {x}});
  check_gradients({"max_pool2d overlapping",
                   [](const Tensors& in) { return max_pool2d(in[0], {.kernel = 2, .stride = 1}); },
                   {x}});
  check_gradients(
      {"max_pool2d_with_indices",
       [](const Tensors& in) { return max_pool2d_with_indices(in[0], {.kernel = 2}).values; },
       {x}});
  check_gradients({"max_pool2d NHWC",
                   [](const Tensors& in) {
                     return max_pool2d(in[0].contiguous(kChannelsLast),
                                       {.kernel = 3, .stride = 1, .pad = 1});
                   },
                   {x}});
  check_gradients({"avg_pool2d",
                   [](const Tensors& in) {
                     return avg_pool2d(in[0],
                                       {.kernel = 3, .stride = 2, .pad = 1, .ceil_mode = true});
                   },
                   {x}});
  check_gradients({"avg_pool2d NHWC",
                   [](const Tensors& in) {
                     return avg_pool2d(in[0].contiguous(kChannelsLast),
                                       {.kernel = 2, .stride = 1, .count_include_pad = false});
                   },
                   {x}});
  check_gradients({"adaptive_avg_pool2d",
                   [](const Tensors& in) {
                     return adaptive_avg_pool2d(in[0], {2, 3});
                   },
                   {x}});
  check_gradients(
      {"global average", [](const Tensors& in) { return adaptive_avg_pool2d(in[0], 1); }, {x}});
}

TEST_CASE("pooling: planes without a batch") {
  const Tensor x = f64({3, 7, 6});
  const auto check = [&](const std::string& op, const Function& f) {
    CAPTURE(op);
    const Tensor y = f({x});
    CHECK(y.ndim() == 3);
    CHECK(difference(y, f({x.unsqueeze(0)})[0], 0) == "");
    check_gradients({op, f, {f64({2, 5, 4})}});
  };
  check("max_pool2d",
        [](const Tensors& in) { return max_pool2d(in[0], {.kernel = 3, .stride = 2, .pad = 1}); });
  check("avg_pool2d", [](const Tensors& in) { return avg_pool2d(in[0], {.kernel = 2}); });
  check("adaptive_avg_pool2d", [](const Tensors& in) {
    return adaptive_avg_pool2d(in[0], {2, 3});
  });
  const auto [y, index] = max_pool2d_with_indices(x, {.kernel = 2});
  CHECK(index.shape() == Shape{3, 3, 3});
  CHECK(difference(gather(x.view({3, 42}), 1, index.view({3, 9})), y.view({3, 9}), 0) == "");
}

TEST_CASE("pooling: the number of threads changes no bit") {
  const Tensor x = randn({4, 8, 33, 31}), dy = randn({4, 8, 17, 16});
  const int before = num_threads();
  std::vector<Tensors> results;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    const Tensor t = x.clone().requires_grad_();
    const Tensor y = max_pool2d(t, {.kernel = 3, .stride = 2, .pad = 1});
    y.backward(dy);
    results.push_back({y, t.grad(), adaptive_avg_pool2d(x, 5)});
  }
  set_num_threads(before);
  for (size_t i = 0; i < 3; ++i) CHECK(difference(results[0][i], results[1][i], 0) == "");
}

TEST_CASE("pooling: errors name the options and the tensor") {
  const Tensor x = zeros({1, 1, 4, 4});
  CHECK_THROWS_WITH_AS(
      max_pool2d(x, {.kernel = 2, .pad = 2}),
      doctest::Contains("pad must be between 0 and half the kernel, got 2 for a kernel of 2"),
      ValueError);
  CHECK_THROWS_WITH_AS(max_pool2d(x, {.kernel = 5}),
                       doctest::Contains("max_pool2d: a window of 5 (dilation 1) is larger than "
                                         "the padded input (x: f32[1,1,4,4]@cpu)"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(avg_pool2d(x, {.kernel = {0, 2}}),
                       doctest::Contains("kernel must be positive, got [0,2]"), ValueError);
  CHECK_THROWS_WITH_AS(max_pool2d(x, {.stride = -1}),
                       doctest::Contains("stride must not be negative, got -1"), ValueError);
  CHECK_THROWS_AS(max_pool2d(x, {.dilation = 0}), ValueError);
  CHECK_THROWS_AS(max_pool2d(x, {.dilation = INT64_MAX}), ValueError);
  CHECK_THROWS_AS(avg_pool2d(x, {.kernel = INT64_MAX}), ValueError);
  CHECK_THROWS_WITH_AS(max_pool2d(x, {.stride = int64_t{1} << 31}),
                       doctest::Contains("stride 2147483648 and dilation 1 must be below 2^31"),
                       ValueError);
  CHECK_THROWS_AS(adaptive_avg_pool2d(x, INT64_MAX), ShapeError);
  CHECK_THROWS_AS(adaptive_avg_pool2d(x, int64_t{1} << 29), OutOfMemoryError);
  CHECK_THROWS_AS(max_pool2d(zeros({4, 4}), {}), ShapeError);
  CHECK_THROWS_AS(max_pool2d(zeros({1, 1, 0, 4}), {}), ShapeError);
  CHECK_THROWS_AS(avg_pool2d(zeros({1, 1, 4, 4}, {.dtype = kI32}), {}), DTypeError);
  CHECK_THROWS_WITH_AS(adaptive_avg_pool2d(x, 0), doctest::Contains("out must be positive, got 0"),
                       ValueError);
}
