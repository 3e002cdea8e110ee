// Quantised ops against integers added up one by one, with ties, saturation, zeros and the largest
// sums; the same on every processor (tools/test_as.sh); errors.
#include "lathe/ops/quantized.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "../cuda_case.h"
#include "compare.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/isclose.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = NAN;

Tensor integers(const Shape& shape, DType dtype) {
  return dtype == kU8 ? randint(0, 256, shape, {.dtype = kU8})
                      : randint(-128, 128, shape, {.dtype = kI8});
}
double least_of(DType dtype) { return dtype == kU8 ? 0 : -128; }
double most_of(DType dtype) { return dtype == kU8 ? 255 : 127; }

/// The sums of products, in 64 bits.
std::vector<int64_t> sums_of(const Tensor& x_in, const Tensor& w_in, const Conv2dOptions& opt) {
  const Conv2dGeometry g = conv2d_geometry("test", x_in.shape(), w_in.shape(), opt);
  const std::vector<int64_t> x = x_in.to_vector<int64_t>(), w = w_in.to_vector<int64_t>();
  const int64_t cg = g.C / g.groups, kg = g.K / g.groups;
  std::vector<int64_t> sums;
  for (int64_t n = 0; n < g.N; ++n)
    for (int64_t k = 0; k < g.K; ++k)
      for (int64_t p = 0; p < g.P; ++p)
        for (int64_t q = 0; q < g.Q; ++q) {
          int64_t sum = 0;
          for (int64_t c = 0; c < cg; ++c)
            for (int64_t r = 0; r < g.R; ++r)
              for (int64_t s = 0; s < g.S; ++s) {
                const int64_t row = p * g.stride.rows - g.pad.rows + r * g.dilation.rows;
                const int64_t column = q * g.stride.cols - g.pad.cols + s * g.dilation.cols;
                if (row < 0 || row >= g.H || column < 0 || column >= g.W) continue;
                const int64_t channel = k / kg * cg + c;
                sum += x[static_cast<size_t>(((n * g.C + channel) * g.H + row) * g.W + column)] *
                       w[static_cast<size_t>(((k * cg + c) * g.R + r) * g.S + s)];
              }
          sums.push_back(sum);
        }
  return sums;
}

/// "" if y is what the contract says of these sums. In f64; an integer may be the other neighbour
/// of a value within f32's rounding of the middle.
std::string fault(const Tensor& y, const std::vector<int64_t>& sums, const Tensor& w_scale,
                  const Tensor& bias, const QuantizedEpilogue& then, int64_t plane) {
  const std::vector<double> got = y.to_vector<double>(), scales = w_scale.to_vector<double>();
  std::vector<double> offsets(scales.size()), residual(sums.size());
  if (bias.defined()) offsets = bias.to_vector<double>();
  if (then.residual.defined()) residual = then.residual.to_vector<double>();
  if (got.size() != sums.size()) return concat("got ", y);
  const double step = then.dtype == kF32 ? 1 : then.y_scale;
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t k = i / static_cast<size_t>(plane) % scales.size();
    const double product = static_cast<double>(sums[i]) * then.x_scale * scales[k];
    const double extra = residual[i] * then.residual_scale;
    double v = product + offsets[k] + extra;
    // Each of the terms is rounded a few times, by 2^-24 of it.
    const double rounding =
        (std::fabs(product) + std::fabs(offsets[k]) + std::fabs(extra)) / step * 8 * 0x1p-24;
    if (then.relu) v = std::max(v, 0.0);
    v /= step;
    if (then.dtype != kF32) v = std::clamp(v, least_of(then.dtype), most_of(then.dtype));
    const double most = rounding + (then.dtype == kF32 ? 0 : 0.5);
    if (!(std::fabs(got[i] - v) <= most)) {
      return concat("element ", i, ": got ", got[i], ", want ", v, " +- ", most);
    }
  }
  return "";
}

struct ConvCase {
  const char* name;
  Shape x, w;
  Conv2dOptions opt;
};

const ConvCase kCases[] = {
    {"ResNet stage", {2, 32, 9, 10}, {48, 32, 3, 3}, {.pad = 1}},
    {"stem", {2, 3, 17, 15}, {16, 3, 7, 7}, {.stride = 2, .pad = 3}},
    {"grey", {2, 1, 9, 9}, {16, 1, 3, 3}, {.pad = 1}},
    {"shortcut", {3, 16, 9, 9}, {32, 16, 1, 1}, {.stride = 2}},
    {"odd channels", {1, 5, 6, 7}, {7, 5, 3, 2}, {.stride = {1, 2}, .pad = {1, 0}}},
    {"depthwise", {2, 32, 7, 7}, {32, 1, 3, 3}, {.pad = 1, .groups = 32}},
    {"groups", {2, 12, 5, 5}, {8, 6, 3, 3}, {.pad = 1, .groups = 2}},
    {"dilated", {1, 8, 9, 9}, {8, 8, 3, 3}, {.pad = 2, .dilation = 2}},
    {"larger than a grain", {4, 16, 32, 32}, {16, 16, 1, 1}, {}},
    {"no images", {0, 2, 5, 5}, {3, 2, 3, 3}, {}},
    {"no input channels", {2, 0, 5, 5}, {3, 0, 3, 3}, {}},
};

}  // namespace

TEST_CASE("quantize: rounds to even, saturates, takes NaN for 0") {
  const Tensor x = tensor({0.f, 0.25f, 0.75f, 1.25f, -0.25f, -0.75f, 63.5f, 64.f, -64.f, -64.5f,
                           127.5f, 128.f, 1e30f, -1e30f, kInf, -kInf, kNaN, -0.f});
  const std::vector<int> i8 = quantize(x, 0.5, kI8).to_vector<int>();
  CHECK(i8 == std::vector<int>{0, 0, 2, 2, 0, -2, 127, 127, -128, -128, 127, 127, 127, -128, 127,
                               -128, 0, 0});
  const std::vector<int> u8 = quantize(x, 0.5, kU8).to_vector<int>();
  CHECK(u8 == std::vector<int>{0, 0, 2, 2, 0, 0, 127, 128, 0, 0, 255, 255, 255, 0, 255, 0, 0, 0});
  CHECK(equal(dequantize(quantize(x, 0.5, kI8), 0.5).narrow(0, 6, 2), tensor({63.5f, 63.5f})));
}

TEST_CASE("quantize: every integer comes back, in x's order") {
  for (const DType dtype : {kU8, kI8}) {
    const Tensor q = integers({2, 3, 40, 50}, dtype).contiguous(kChannelsLast);
    const Tensor x = dequantize(q, 0.1);
    CHECK(x.strides() == q.strides());
    const Tensor back = quantize(x, 0.1, dtype);
    CHECK(back.strides() == q.strides());
    CHECK(equal(back, q));
    CHECK(equal(quantize(transpose(x, 0, 1), 0.1, dtype), transpose(q, 0, 1)));
    CHECK(quantize(zeros({0, 4}), 0.1, dtype).shape() == Shape{0, 4});
  }
}

TEST_CASE("quantized_conv2d: exact sums, scaled and rounded once") {
  manual_seed(1);
  for (const ConvCase& c : kCases) {
    CAPTURE(c.name);
    for (const DType dtype : {kU8, kI8}) {
      CAPTURE(dtype);
      const Tensor x = integers(c.x, dtype), w = integers(c.w, kI8);
      const int64_t k = w.dim(0);
      const std::vector<int64_t> sums = sums_of(x, w, c.opt);
      const Tensor w_scale = rand({k}) * 0.01 + 0.001, bias = randn({k});
      const double y_scale = 0.01 * std::sqrt(static_cast<double>(w.numel() / k + 1));
      Conv2dOptions with_bias = c.opt;
      with_bias.bias = bias;
      for (const DType to : {kU8, kI8, kF32}) {
        CAPTURE(to);
        QuantizedEpilogue then{.x_scale = 0.02, .y_scale = y_scale, .dtype = to};
        const Tensor y = quantized_conv2d(x, w, w_scale, c.opt, then);
        REQUIRE(y.dtype() == to);
        const int64_t plane = y.dim(2) * y.dim(3);
        CHECK(fault(y, sums, w_scale, {}, then, plane) == "");
        if (y.numel() > 0) CHECK(y.is_contiguous(kChannelsLast));
        for (const DType of : {kU8, kI8}) {
          then.residual = integers(y.shape(), of);
          then.residual_scale = 0.05;
          then.relu = of == kU8;
          CHECK(fault(quantized_conv2d(x, w, w_scale, with_bias, then), sums, w_scale, bias, then,
                      plane) == "");
        }
      }
    }
  }
}

TEST_CASE("quantized_conv2d: the largest products and sums are exact") {
  // 255 * -128 twice is more than 16 bits hold, where VPMADDUBSW saturates.
  for (const DType dtype : {kU8, kI8}) {
    for (const double value : {most_of(dtype), least_of(dtype)}) {
      for (const double filter : {127.0, -128.0}) {
        CAPTURE(dtype);
        CAPTURE(value);
        CAPTURE(filter);
        const int64_t channels = 512;
        const Tensor x = full({1, channels, 3, 3}, value, {.dtype = dtype});
        const Tensor w = full({16, channels, 3, 3}, filter, {.dtype = kI8});
        const Tensor one = ones({16});
        const QuantizedEpilogue f32{.dtype = kF32};
        const std::vector<int64_t> sums = sums_of(x, w, {.pad = 1});
        CHECK(fault(quantized_conv2d(x, w, one, {.pad = 1}, f32), sums, one, {}, f32, 9) == "");
        // f32 holds these: 65536 * 255 * 128 < 2^31, and a multiple of 2^7.
        const Tensor row = full({2, 65536}, value, {.dtype = dtype});
        const Tensor y =
            quantized_linear(row, full({8, 65536}, filter, {.dtype = kI8}), ones({8}), {}, f32);
        CHECK(y.to_vector<double>() ==
              std::vector<double>(16,
                                  static_cast<double>(static_cast<float>(65536 * value * filter))));
      }
    }
  }
  CHECK_THROWS_WITH_AS(quantized_linear(zeros({1, 65537}, {.dtype = kU8}),
                                        zeros({1, 65537}, {.dtype = kI8}), ones({1}), {}, {}),
                       doctest::Contains("sums of 65537 products may not fit 32 bits"), ShapeError);
}

TEST_CASE("quantized_conv2d: results saturate; filters and scales of any size") {
  const Tensor x = full({1, 16, 4, 4}, 200, {.dtype = kU8});
  Tensor w = zeros({16, 16, 1, 1}, {.dtype = kI8});
  w.narrow(0, 1, 1).fill_(127);
  w.narrow(0, 2, 1).fill_(-128);
  const Tensor bias = zeros({16});
  bias.narrow(0, 3, 1).fill_(1e30);
  bias.narrow(0, 4, 1).fill_(-1e30);
  bias.narrow(0, 5, 1).fill_(0.5);
  const auto first_pixel = [&](DType dtype, double w_scale, bool relu) {
    const Tensor y = quantized_conv2d(x, w, full({16}, w_scale), {.bias = bias},
                                      {.y_scale = 0.5, .dtype = dtype, .relu = relu});
    std::vector<int> values;
    for (int64_t k = 0; k < 6; ++k) values.push_back(y[0][k][0][0].item<int>());
    return values;
  };
  CHECK(first_pixel(kI8, 1, false) == std::vector<int>{0, 127, -128, 127, -128, 1});
  CHECK(first_pixel(kU8, 1, false) == std::vector<int>{0, 255, 0, 255, 0, 1});
  CHECK(first_pixel(kI8, 1, true) == std::vector<int>{0, 127, 0, 127, 0, 1});
  // 16 * 200 * 127 * 1e-38 is nothing; 1e-44 has few digits.
  for (const double tiny : {1e-38, 1e-44})
    CHECK(first_pixel(kI8, tiny, false) == std::vector<int>{0, 0, 0, 127, -128, 1});
  CHECK_THROWS_WITH_AS(quantized_conv2d(x, w, full({16}, 1e30), {}, {.x_scale = 1e30}),
                       doctest::Contains("x_scale * w_scale / y_scale finite"), ValueError);
}

TEST_CASE("quantized_linear: exact sums, any number of dimensions") {
  manual_seed(2);
  for (const Shape& shape : {Shape{4, 24}, Shape{24}, Shape{2, 3, 24}, Shape{0, 24}}) {
    CAPTURE(shape);
    for (const DType dtype : {kU8, kI8}) {
      const Tensor x = integers(shape, dtype), w = integers({10, 24}, kI8);
      const Tensor rows = x.reshape({x.numel() / 24, 24, 1, 1});
      const std::vector<int64_t> sums = sums_of(rows, w.view({10, 24, 1, 1}), {});
      const Tensor w_scale = rand({10}) * 0.01 + 0.001, bias = randn({10});
      QuantizedEpilogue then{.x_scale = 0.1, .y_scale = 0.5, .dtype = kI8, .relu = true};
      const Tensor y = quantized_linear(x, w, w_scale, bias, then);
      CHECK(y.dim(-1) == 10);
      CHECK(y.ndim() == x.ndim());
      CHECK(fault(y, sums, w_scale, bias, then, 1) == "");
      then = {.residual = integers(y.shape(), kI8), .x_scale = 0.1, .dtype = kF32};
      CHECK(fault(quantized_linear(x, w, w_scale, {}, then), sums, w_scale, {}, then, 1) == "");
    }
  }
}

TEST_CASE("quantized_linear: more channels than a primitive of oneDNN is kept for") {
  const int64_t channels = 65537;
  const Tensor x = full({1, 2}, 3, {.dtype = kU8}), w = ones({channels, 2}, {.dtype = kI8});
  const Tensor y = quantized_linear(x, w, full({channels}, 0.5), {}, {.dtype = kF32});
  CHECK(equal(y, full({1, channels}, 3.0)));  // (3 + 3) * 0.5
}

TEST_CASE("quantized_max_pool2d: the integers that max_pool2d takes") {
  manual_seed(3);
  for (const DType dtype : {kU8, kI8}) {
    for (const MaxPool2dOptions& opt :
         {MaxPool2dOptions{.kernel = 3, .stride = 2, .pad = 1}, MaxPool2dOptions{.kernel = {2, 3}},
          MaxPool2dOptions{.kernel = 2, .stride = 1, .dilation = 2, .ceil_mode = true}}) {
      const Tensor q = integers({2, 20, 13, 11}, dtype);
      const Tensor want = max_pool2d(q.to(kF32), opt), got = quantized_max_pool2d(q, opt);
      CHECK(got.dtype() == dtype);
      CHECK(got.is_contiguous(kChannelsLast));
      CHECK(equal(got.to(kF32), want.contiguous()));
    }
  }
}

TEST_CASE("quantized_conv2d: one thread or many, new values in the same filters") {
  manual_seed(4);
  const int threads = num_threads();
  const Tensor x = integers({2, 16, 12, 12}, kU8), w = integers({32, 16, 3, 3}, kI8);
  const Tensor w_scale = full({32}, 0.01);
  const auto call = [&] { return quantized_conv2d(x, w, w_scale, {.pad = 1}, {.dtype = kF32}); };
  const Tensor y = call();
  set_num_threads(1);
  CHECK(equal(call(), y));
  set_num_threads(threads);
  w.fill_(0);
  CHECK(equal(call(), zeros_like(y)));
}

TEST_CASE("quantized ops: what does not fit is named") {
  const Tensor x = zeros({1, 4, 5, 5}, {.dtype = kU8}), w = zeros({8, 4, 3, 3}, {.dtype = kI8});
  const Tensor s = ones({8});
  const auto conv = [&](const Tensor& a, const Tensor& b, const Tensor& scale,
                        const QuantizedEpilogue& then) {
    return quantized_conv2d(a, b, scale, {}, then);
  };
  CHECK_THROWS_WITH_AS(conv(zeros({1, 4, 5, 5}), w, s, {}),
                       doctest::Contains("x must be u8 or i8 (x: f32[1,4,5,5]"), DTypeError);
  CHECK_THROWS_WITH_AS(conv(x, x, s, {}), doctest::Contains("w must be i8"), DTypeError);
  CHECK_THROWS_WITH_AS(conv(x, w, ones({7}), {}), doctest::Contains("w_scale must be [8]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(conv(x, w, {}, {}), doctest::Contains("w_scale must be [8]"), ShapeError);
  CHECK_THROWS_WITH_AS(conv(x, w, zeros({8}), {}), doctest::Contains("w_scale[0] = 0"), ValueError);
  CHECK_THROWS_WITH_AS(conv(x, w, s, {.x_scale = -1}),
                       doctest::Contains("x_scale must be above 0 and finite in f32, got -1"),
                       ValueError);
  CHECK_THROWS_AS(conv(x, w, s, {.x_scale = NAN}), ValueError);
  CHECK_THROWS_AS(conv(x, w, s, {.y_scale = 1e300, .dtype = kI8}), ValueError);
  CHECK_THROWS_WITH_AS(conv(x, w, s, {.dtype = kF64}),
                       doctest::Contains("a result is of u8, i8 or f32, not of f64"), DTypeError);
  CHECK_THROWS_WITH_AS(conv(x, w, s, {.residual = zeros({1, 8, 1, 1}, {.dtype = kU8})}),
                       doctest::Contains("residual must be the result's [1,8,3,3]"), ShapeError);
  CHECK_THROWS_AS(conv(x, zeros({8, 5, 3, 3}, {.dtype = kI8}), s, {}), ShapeError);
  CHECK_THROWS_AS(conv(x[0], w, s, {}), ShapeError);
  CHECK_THROWS_WITH_AS(quantize(zeros({2}), 0, kI8), doctest::Contains("got 0"), ValueError);
  CHECK_THROWS_AS(quantize(zeros({2}), 1, kI32), DTypeError);
  CHECK_THROWS_AS(quantize(zeros({2}, {.dtype = kI8}), 1, kI8), DTypeError);
  CHECK_THROWS_AS(dequantize(zeros({2}), 1), DTypeError);
  CHECK_THROWS_WITH_AS(conv(x, w, s,
                            {.residual = zeros({1, 8, 3, 3}, {.dtype = kU8}),
                             .residual_scale = 1e38,
                             .y_scale = 1e-30,
                             .dtype = kI8}),
                       doctest::Contains("residual_scale / y_scale must be finite"), ValueError);
  CHECK_THROWS_AS(quantized_linear(x, w, s, {}, {}), ShapeError);
  CHECK_THROWS_WITH_AS(quantized_linear(x[0][0], zeros({8, 5}, {.dtype = kI8}), zeros({8}), {}, {}),
                       doctest::Contains("quantized_linear: w_scale[0] = 0"), ValueError);
  CHECK_THROWS_WITH_AS(quantized_max_pool2d(x, {.kernel = 9}),
                       doctest::Contains("quantized_max_pool2d: a window of"), ShapeError);
  CHECK_THROWS_WITH_AS(quantized_max_pool2d(x, {.kernel = 9}), doctest::Contains("(x: u8[1,4,5,5]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(quantized_max_pool2d(x, {.kernel = 2, .pad = 2}),
                       doctest::Contains("quantized_max_pool2d: pad must be"), ValueError);
  CHECK_THROWS_AS(quantized_max_pool2d(zeros({1, 4, 5, 5}), {}), DTypeError);
}

TEST_CASE("quantized ops: a tensor on a GPU is refused" * cuda_case()) {
  const Tensor x = zeros({1, 4, 5, 5}, {.device = Device(DeviceType::kCUDA)});
  CHECK_THROWS_WITH_AS(quantize(x, 1, kU8), doctest::Contains("on a CPU alone"), DeviceError);
}
