// Convolution with sum and relu: the bits of the ops one by one, NaN, gradients, errors; and that it
// is one op where nothing is recorded.
#include "lathe/ops/fused_conv2d.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/memory_format.h"
#include "lathe/ops/unary.h"
#include "lathe/profile/profiler.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct FusedCase {
  const char* name;
  Shape x, w;
  Conv2dOptions opt;
};

const FusedCase kCases[] = {
    {"ResNet stage 1, by Winograd", {3, 64, 16, 16}, {64, 64, 3, 3}, {.pad = 1}},
    {"several blocks, no whole tile", {2, 72, 15, 13}, {136, 72, 3, 3}, {.pad = 1}},
    {"no whole vector", {4, 24, 9, 10}, {40, 24, 3, 3}, {.pad = 1}},
    {"the small tile", {16, 16, 6, 6}, {16, 16, 3, 3}, {.pad = 1}},
    {"stem", {2, 3, 33, 33}, {64, 3, 7, 7}, {.stride = 2, .pad = 3}},
    {"first of a stage", {2, 64, 14, 14}, {128, 64, 3, 3}, {.stride = 2, .pad = 1}},
    {"shortcut", {2, 64, 9, 9}, {128, 64, 1, 1}, {.stride = 2}},
    {"depthwise", {2, 32, 9, 9}, {32, 1, 3, 3}, {.pad = 1, .groups = 32}},
    {"larger than a grain", {2, 16, 60, 60}, {32, 16, 1, 1}, {}},
    {"no images", {0, 2, 5, 5}, {3, 2, 3, 3}, {}},
    {"no input channels", {2, 0, 5, 5}, {3, 0, 3, 3}, {}},
};

Tensor one_by_one(const Tensor& x, const Tensor& w, const Conv2dOptions& opt,
                  const Conv2dEpilogue& then) {
  Tensor y = conv2d(x, w, opt);
  if (then.residual.defined()) y = add(y, then.residual);
  return then.relu ? relu(y) : y;
}

std::vector<uint32_t> bits_of(const Tensor& t) {
  const std::vector<float> values = t.to_vector<float>();
  std::vector<uint32_t> bits(values.size());
  if (!bits.empty()) std::memcpy(bits.data(), values.data(), bits.size() * sizeof(uint32_t));
  return bits;
}

/// The ops that a call is made of, without reorders: "add conv2d ".
template <class F>
std::string ops_of(F&& f) {
  profile::Profiler profiler;
  f();
  profiler.stop();
  std::set<std::string> names;
  const profile::Averages averages = profiler.key_averages();
  for (const profile::Average& average : averages.rows()) {
    if (average.kind == profile::Kind::kOp && average.name != "reorder") names.insert(average.name);
  }
  std::string text;
  for (const std::string& name : names) text += name + " ";
  return text;
}

Tensor normal(const Shape& shape) { return randn(shape, {.dtype = kF64}); }

}  // namespace

TEST_CASE("fused_conv2d: the bits of convolution, sum and relu one by one") {
  const NoGrad off;
  for (const FusedCase& c : kCases) {
    CAPTURE(c.name);
    manual_seed(9);
    for (const MemoryFormat format : {kChannelsLast, kContiguous}) {
      const Tensor x = randn(c.x).contiguous(format), w = randn(c.w);
      for (const bool with_bias : {false, true}) {
        Conv2dOptions opt = c.opt;
        if (with_bias) opt.bias = randn({c.w[0]});
        const Tensor residual = randn(conv2d(x, w, opt).shape());  // row-major
        for (const Conv2dEpilogue& then :
             {Conv2dEpilogue{}, Conv2dEpilogue{{}, true}, Conv2dEpilogue{residual, false},
              Conv2dEpilogue{residual.contiguous(format), true}}) {
          const Tensor y = fused_conv2d(x, w, opt, then);
          CHECK(bits_of(y) == bits_of(one_by_one(x, w, opt, then)));
          CHECK(y.is_contiguous(format));
        }
      }
    }
  }
}

TEST_CASE("fused_conv2d: NaN and infinity pass as through relu") {
  const NoGrad off;
  manual_seed(9);
  for (const FusedCase& c : kCases) {
    if (numel_of(c.x) == 0) continue;
    CAPTURE(c.name);
    const Tensor x = randn(c.x).contiguous(kChannelsLast), w = randn(c.w);
    const Tensor residual = randn(conv2d(x, w, c.opt).shape());
    float* const values = residual.data<float>();
    values[0] = NAN;
    values[1] = INFINITY;
    values[2] = -INFINITY;
    const std::vector<float> y = fused_conv2d(x, w, c.opt, {residual, true}).to_vector<float>();
    CHECK(std::isnan(y[0]));
    CHECK(y[1] == INFINITY);
    CHECK(y[2] == 0);
    x.data<float>()[0] = NAN;
    CHECK(std::isnan(fused_conv2d(x, w, c.opt, {{}, true}).to_vector<float>()[0]));
  }
}

TEST_CASE("fused_conv2d: one op where no gradient is recorded, else the ops it stands for") {
  const Tensor x = randn({1, 4, 5, 5}), w = randn({4, 4, 3, 3});
  const Tensor trained = randn({4, 4, 3, 3}).requires_grad_();
  const auto names = [&](const Tensor& filters) {
    return ops_of([&] { fused_conv2d(x, filters, {.pad = 1}, {x, true}); });
  };
  CHECK(names(w) == "fused_conv2d ");
  CHECK(names(trained) == "add conv2d fused_conv2d relu ");
  const NoGrad off;
  CHECK(names(trained) == "fused_conv2d ");
}

TEST_CASE("fused_conv2d: gradients agree with finite differences, once and twice") {
  const auto f = [](const Tensors& in) {
    return fused_conv2d(in[0], in[1], {.bias = in[2], .pad = 1}, {in[3], true});
  };
  manual_seed(9);
  check_gradients(
      {"fused_conv2d",
       f,
       {normal({2, 2, 4, 3}), normal({3, 2, 3, 3}), normal({3}), normal({2, 3, 4, 3})}});
}

TEST_CASE("fused_conv2d: an image without a batch, and other dtypes") {
  manual_seed(9);
  const Tensor x = normal({4, 5, 6}), w = normal({6, 4, 3, 3}), r = normal({6, 5, 6});
  const Conv2dOptions opt{.pad = 1};
  CHECK(difference(fused_conv2d(x, w, opt, {r, true}), one_by_one(x, w, opt, {r, true}), 0) == "");
  for (const DType dtype : {kF16, kBF16}) {
    const Tensor a = cast(x, dtype), b = cast(w, dtype), c = cast(r, dtype);
    const Tensor y = fused_conv2d(a, b, opt, {c, true});
    CHECK(y.dtype() == dtype);
    CHECK(difference(y, one_by_one(a, b, opt, {c, true}), 0) == "");
  }
}

TEST_CASE("fused_conv2d: a residual that does not fit is named") {
  const Tensor x = zeros({2, 3, 8, 8}), w = zeros({4, 3, 3, 3});
  for (const bool recorded : {false, true}) {
    const Tensor filters = recorded ? zeros({4, 3, 3, 3}).requires_grad_() : w;
    CHECK_THROWS_WITH_AS(fused_conv2d(x, filters, {}, {zeros({2, 4, 1, 1}), false}),
                         doctest::Contains("fused_conv2d: residual must be the convolution's "
                                           "[2,4,6,6] (residual: f32[2,4,1,1]@cpu"),
                         ShapeError);
    CHECK_THROWS_AS(fused_conv2d(x, filters, {}, {zeros({2, 4, 6, 6}, {.dtype = kF64}), false}),
                    DTypeError);
    CHECK_THROWS_WITH_AS(fused_conv2d(x, filters, {.bias = zeros({3})}, {{}, true}),
                         doctest::Contains("bias"), ShapeError);
  }
}

TEST_CASE("fused_conv2d: in an Autocast scope a residual has any floating dtype, and no other") {
  const NoGrad off;
  const Tensor x = randn({2, 3, 5, 5}), w = randn({4, 3, 3, 3});
  const Conv2dOptions opt{.pad = 1};
  for (const DType dtype : {kF16, kF32, kF64}) {
    const Conv2dEpilogue then{.residual = cast(randn({2, 4, 5, 5}), dtype), .relu = true};
    const Autocast half(kCPU, kBF16);
    const Tensor got = fused_conv2d(x, w, opt, then), want = one_by_one(x, w, opt, then);
    CHECK(got.dtype() == want.dtype());
    CHECK(equal(got, want));
  }
  for (const DType dtype : {kI64, kBool, kU8}) {
    const Conv2dEpilogue then{.residual = zeros({2, 4, 5, 5}, {.dtype = dtype})};
    const Autocast half(kCPU, kBF16);
    CHECK_THROWS_WITH_AS(fused_conv2d(x, w, opt, then),
                         doctest::Contains("fused_conv2d: residual must be of floating numbers"),
                         DTypeError);
  }
}
