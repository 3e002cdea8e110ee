// upsample against published numbers and against the formula written out.
#include "lathe/ops/upsample.h"

#include "compare.h"
#include "lathe/core/memory/host_allocator.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr auto kBilinear = UpsampleMode::kBilinear;

struct Case {
  Shape x;
  UpsampleOptions opt;
};
const Case kCases[] = {
    {{1, 2, 3, 4}, {.scale = 2}},
    {{2, 3, 5, 4}, {.size = {7, 3}}},  // up and down
    {{1, 1, 4, 4}, {.scale = 1.5}},
    {{2, 3, 5, 4}, {.size = {9, 6}, .mode = kBilinear}},
    {{2, 3, 5, 4}, {.size = {9, 2}, .mode = kBilinear, .align_corners = true}},
    {{1, 2, 3, 3}, {.scale = 2, .mode = kBilinear}},
    {{1, 2, 1, 5}, {.size = {3, 1}, .mode = kBilinear, .align_corners = true}},
    {{1, 2, 7, 7}, {.size = 3, .mode = kBilinear}},
    {{0, 2, 3, 3}, {.scale = 2}},
};

/// The value at place (i) of one axis: two inputs and the share of the second.
struct Place {
  int64_t a, b;
  double share;
};
Place place(int64_t i, int64_t in, int64_t out, const UpsampleOptions& opt) {
  const double step =
      opt.scale.rows > 0 ? 1 / opt.scale.rows : static_cast<double>(in) / static_cast<double>(out);
  const auto x = static_cast<double>(i);
  if (opt.mode == UpsampleMode::kNearest) {
    const int64_t at = std::min(static_cast<int64_t>(x * step), in - 1);
    return {at, at, 0};
  }
  const double at =
      opt.align_corners
          ? (out > 1 ? x * static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0)
          : std::max(0.0, (x + 0.5) * step - 0.5);
  const auto left = static_cast<int64_t>(at);
  return {left, std::min(left + 1, in - 1), at - static_cast<double>(left)};
}

std::vector<double> reference(const Tensor& x, const Shape& out, const UpsampleOptions& opt) {
  const std::vector<double> v = x.to_vector<double>();
  const int64_t h = x.dim(2), w = x.dim(3);
  std::vector<double> y;
  for (int64_t plane = 0; plane < out[0] * out[1]; ++plane) {
    for (int64_t p = 0; p < out[2]; ++p) {
      for (int64_t q = 0; q < out[3]; ++q) {
        const Place r = place(p, h, out[2], opt), c = place(q, w, out[3], opt);
        const auto at = [&](int64_t i, int64_t j) {
          return v[static_cast<size_t>((plane * h + i) * w + j)];
        };
        y.push_back((1 - r.share) * ((1 - c.share) * at(r.a, c.a) + c.share * at(r.a, c.b)) +
                    r.share * ((1 - c.share) * at(r.b, c.a) + c.share * at(r.b, c.b)));
      }
    }
  }
  return y;
}

}  // namespace

TEST_CASE("upsample: values are those of the formula, in every layout and dtype") {
  for (const Case& c : kCases) {
    for (const DType dtype : {kF32, kF64, kF16}) {
      const Tensor dense = cast(randn(c.x), dtype);
      std::vector<Tensor> all{dense.contiguous(kChannelsLast)};
      for (const Layout& layout : layouts()) all.push_back(layout.apply(dense));
      for (const Tensor& x : all) {
        CAPTURE(concat(x, " ", x.strides()));
        const Tensor y = upsample(x, c.opt);
        CHECK(difference(y, reference(dense, y.shape(), c.opt), tolerance_of(dtype)) == "");
        CHECK((y.is_contiguous(kChannelsLast) || x.is_contiguous() ||
               !x.is_contiguous(kChannelsLast)));
      }
    }
  }
}

TEST_CASE("upsample: the ONNX Resize examples") {  // onnx/backend/test/case/node/resize.py
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}}, kF64).view({1, 1, 2, 2});
  CHECK(difference(upsample(x, {.scale = 2, .mode = kBilinear}),
                   {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4},
                   1e-12) == "");
  CHECK(difference(upsample(x, {.scale = 2, .mode = kBilinear, .align_corners = true}),
                   {1, 4.0 / 3, 5.0 / 3, 2, 5.0 / 3, 2, 7.0 / 3, 8.0 / 3, 7.0 / 3, 8.0 / 3, 3,
                    10.0 / 3, 3, 10.0 / 3, 11.0 / 3, 4},
                   1e-12) == "");
  CHECK(difference(upsample(x, {.size = {2, 4}}), {1, 1, 2, 2, 3, 3, 4, 4}, 0) == "");
}

TEST_CASE("upsample: two factors, the nearest middle, and bicubic are PyTorch's") {
  // F.interpolate (1.13) of (7 i) mod 11 - 5, i = 0 … 11, as [1,1,3,4]
  const Tensor x =
      tensor({{-5.0, 2.0, -2.0, 5.0}, {1.0, -3.0, 4.0, 0.0}, {-4.0, 3.0, -1.0, -5.0}}, kF64)
          .view({1, 1, 3, 4});
  const auto exact = UpsampleMode::kNearestExact, cubic = UpsampleMode::kBicubic;
  CHECK(difference(upsample(x, {.scale = {1.5, 0.75}}), {-5, 2, -2, -5, 2, -2, 1, -3, 4, -4, 3, -1},
                   0) == "");
  CHECK(difference(upsample(x, {.scale = {1.5, 0.75}, .mode = exact}),
                   {-5, -2, 5, 1, 4, 0, 1, 4, 0, -4, -1, -5}, 0) == "");
  CHECK(difference(upsample(x, {.size = 2, .mode = exact}), {2, 5, 3, -5}, 0) == "");
  CHECK(difference(upsample(x, {.size = {2, 3}, .mode = cubic, .align_corners = true}),
                   {-5, 0, 5, -4, 2.03125, -5}, 1e-12) == "");
  CHECK(difference(upsample(x, {.scale = {2, 1.5}, .mode = cubic}),
                   {-6.3411593967, -1.0689697266, 2.353443287,   -2.458912037,  0.9635009766,
                    6.2356906467,  -3.8225775825, -1.2991943359, 0.7748254847,  -0.6237024378,
                    1.6839599609,  4.4342719184,  0.3995632595,  -1.6973876953, -1.8919587312,
                    2.4390778718,  2.9454345703,  1.5292697483,  0.7315945095,  -1.3653564453,
                    -1.4965187355, 3.0881528501,  1.4512939453,  -2.10808648,   -3.0139838325,
                    -0.4906005859, 1.73783818,    0.9569860388,  -1.9547119141, -4.4237603082,
                    -5.2356906467, 0.0364990234,  3.6700258608,  -0.2978741681, -4.0111083984,
                    -5.8745659722},
                   1e-10) == "");
  for (const Layout& layout : layouts()) {  // and in every layout what it is densely
    const UpsampleOptions opt{.scale = {2, 1.5}, .mode = cubic};
    CHECK(difference(upsample(layout.apply(x), opt), upsample(x, opt), 0) == "");
  }
  CHECK(difference(upsample(full({1, 1, 1, 1}, 3.0), {.size = {2, 5}, .mode = cubic}),
                   std::vector<double>(10, 3), 1e-6) == "");
}

TEST_CASE("upsample: gradients agree with finite differences, twice") {
  const Tensor x = f64({2, 2, 3, 4});
  for (const UpsampleOptions& opt :
       {UpsampleOptions{.scale = 2}, UpsampleOptions{.size = {2, 7}},
        UpsampleOptions{.size = {5, 3}, .mode = kBilinear},
        UpsampleOptions{.scale = {2, 0.75}, .mode = UpsampleMode::kNearestExact},
        UpsampleOptions{.size = {5, 2}, .mode = UpsampleMode::kBicubic},
        UpsampleOptions{.size = {2, 9}, .mode = UpsampleMode::kBicubic, .align_corners = true},
        UpsampleOptions{.size = {5, 3}, .mode = kBilinear, .align_corners = true}}) {
    check_gradients({"upsample", [opt](const Tensors& in) { return upsample(in[0], opt); }, {x}});
  }
}

TEST_CASE("upsample: sizes that no memory holds are typed errors, and take none") {
  const Tensor x = zeros({1, 1, 4, 4});
  host_allocator().reset_peak();
  const size_t before = host_allocator().stats().peak_allocated_bytes;
  CHECK_THROWS_AS(upsample(x, {.size = INT64_MAX}), ShapeError);
  CHECK_THROWS_AS(upsample(x, {.size = int64_t{1} << 29}), OutOfMemoryError);
  CHECK_THROWS_AS(upsample(x, {.size = int64_t{1} << 29, .mode = kBilinear}), OutOfMemoryError);
  // Nothing to write, but a map that is too long.
  CHECK_THROWS_WITH_AS(upsample(zeros({0, 1, 4, 4}), {.size = {int64_t{1} << 50, 1}}),
                       doctest::Contains("upsample: axis map: no memory for"), OutOfMemoryError);
  CHECK(host_allocator().stats().peak_allocated_bytes < before + (size_t{1} << 16));
}

TEST_CASE("upsample: errors name the options") {
  const Tensor x = zeros({1, 1, 4, 4});
  CHECK_THROWS_WITH_AS(
      upsample(x, {}),
      doctest::Contains("either a positive size or a positive scale, got size 0 and scale 0, 0"),
      ValueError);
  CHECK_THROWS_AS(upsample(x, {.size = 8, .scale = 2}), ValueError);
  CHECK_THROWS_AS(upsample(x, {.size = {8, 0}}), ValueError);
  CHECK_THROWS_WITH_AS(upsample(x, {.scale = 0.1}),
                       doctest::Contains("scale 0.1 makes 4 rows or columns into 0"), ShapeError);
  CHECK_THROWS_WITH_AS(upsample(x, {.scale = 2, .align_corners = true}),
                       doctest::Contains("bilinear and bicubic only"), ValueError);
  CHECK_THROWS_AS(
      upsample(x, {.scale = 2, .mode = UpsampleMode::kNearestExact, .align_corners = true}),
      ValueError);
  CHECK_THROWS_AS(upsample(x, {.scale = {2, 0}}), ValueError);
  CHECK_THROWS_AS(upsample(x, {.size = 8, .scale = {0, 2}}), ValueError);
  CHECK_THROWS_AS(upsample(zeros({4, 4}), {.scale = 2}), ShapeError);
  CHECK_THROWS_AS(upsample(zeros({1, 1, 2, 2}, {.dtype = kI64}), {.scale = 2}), DTypeError);
}
