// roi_align against a loop over the points of each bin.
#include "lathe/ops/roi_align.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compare.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using In = const Tensors&;
using Values = std::vector<double>;

/// Pixels of x [N,C,H,W].
struct Images {
  Values values;
  Shape shape;

  double at(int64_t n, int64_t c, int64_t row, int64_t column) const {
    return values[static_cast<size_t>(((n * shape[1] + c) * shape[2] + row) * shape[3] + column)];
  }
  double between(int64_t n, int64_t c, double y, double x) const {
    const int64_t height = shape[2], width = shape[3];
    if (y < -1 || y > static_cast<double>(height) || x < -1 || x > static_cast<double>(width)) {
      return 0;
    }
    const auto corner = [](double v, int64_t size, int64_t& low, double& part) {
      v = std::max(v, 0.0);
      low = static_cast<int64_t>(v);
      part = v - static_cast<double>(low);
      if (low >= size - 1) low = size - 1, part = 0;
      return std::min(low + 1, size - 1);
    };
    int64_t top = 0, left = 0;
    double down = 0, right = 0;
    const int64_t bottom = corner(y, height, top, down), end = corner(x, width, left, right);
    return (1 - down) * ((1 - right) * at(n, c, top, left) + right * at(n, c, top, end)) +
           down * ((1 - right) * at(n, c, bottom, left) + right * at(n, c, bottom, end));
  }
};

Values by_points(const Images& x, const Values& boxes, Pair size, const RoiAlignOptions& o) {
  Values out;
  const double shift = o.aligned ? 0.5 : 0;
  for (size_t k = 0; k < boxes.size(); k += 5) {
    const auto n = static_cast<int64_t>(boxes[k]);
    const auto side = [&](size_t i) { return boxes[k + i] * o.spatial_scale - shift; };
    const double x1 = side(1), y1 = side(2);
    double width = side(3) - x1, height = side(4) - y1;
    if (!o.aligned) width = std::max(width, 1.0), height = std::max(height, 1.0);
    const double bin_w = width / static_cast<double>(size.cols);
    const double bin_h = height / static_cast<double>(size.rows);
    const auto points = [&](double bin) {
      return o.sampling_ratio > 0 ? o.sampling_ratio : static_cast<int64_t>(std::ceil(bin));
    };
    const int64_t down = points(bin_h), across = points(bin_w);
    for (int64_t c = 0; c < x.shape[1]; ++c) {
      for (int64_t p = 0; p < size.rows; ++p) {
        for (int64_t q = 0; q < size.cols; ++q) {
          double sum = 0;
          for (int64_t i = 0; i < down; ++i) {
            for (int64_t j = 0; j < across; ++j) {
              const double pi = static_cast<double>(p) +
                                (static_cast<double>(i) + 0.5) / static_cast<double>(down);
              const double qj = static_cast<double>(q) +
                                (static_cast<double>(j) + 0.5) / static_cast<double>(across);
              sum += x.between(n, c, y1 + pi * bin_h, x1 + qj * bin_w);
            }
          }
          out.push_back(sum / static_cast<double>(std::max<int64_t>(down * across, 1)));
        }
      }
    }
  }
  return out;
}

bool all_finite(const Tensor& t) {
  return std::ranges::all_of(t.cpu().to_vector<double>(),
                             [](double v) { return std::isfinite(v); });
}

/// Inside, over each border, outside, of no size, the wrong way round, and of all pixels.
const Tensor kBoxes = tensor({{0.0, 1.25, 1.5, 4.75, 5.25},
                              {1.0, -2.5, -0.5, 3.0, 2.25},
                              {1.0, 4.5, 3.25, 9.5, 8.0},
                              {0.0, 20.0, 20.0, 24.0, 24.0},
                              {0.0, 2.5, 2.5, 2.5, 2.5},
                              {1.0, 4.0, 4.0, 2.0, 1.0},
                              {1.0, 0.0, 0.0, 6.0, 5.0}},
                             kF64);
const RoiAlignOptions kOptions[] = {{},
                                    {.sampling_ratio = 2},
                                    {.spatial_scale = 0.5, .aligned = true},
                                    {.spatial_scale = 1.5, .sampling_ratio = 3, .aligned = true},
                                    {.spatial_scale = 2}};

}  // namespace

TEST_CASE("roi_align: means over the points of the bins, in every layout, on every device") {
  manual_seed(41);
  const Tensor images = f64({2, 3, 5, 6});
  for (const Device device : devices()) {
    for (const DType dtype : {kF64, kF32, kF16}) {
      const Tensor host = images.to(dtype), boxes = kBoxes.to(dtype).to(device);
      const Images reference{host.to_vector<double>(), host.shape()};
      const double tolerance = dtype == kF16 ? 2e-3 : dtype == kF32 ? 1e-5 : 1e-12;
      for (const RoiAlignOptions& o : kOptions) {
        for (const Pair size : {Pair(2), Pair(1, 3)}) {
          const Values want = by_points(reference, kBoxes.to_vector<double>(), size, o);
          for (const Layout& layout : layouts()) {
            CAPTURE(
                concat(dtype, " ", o.spatial_scale, " ", size, " ", layout.name, " on ", device));
            const Tensor y = roi_align(layout.apply(host).to(device), layout.apply(boxes), size, o);
            CHECK(y.shape() == Shape{7, 3, size.rows, size.cols});
            CHECK(y.dtype() == dtype);
            CHECK(difference(y.cpu(), want, tolerance) == "");
          }
        }
      }
    }
  }
  const Tensor of_first = tensor({{1.25, 1.5, 4.75, 5.25}}, kF64), none = zeros({0, 4}, kF64);
  CHECK(difference(roi_align(images, {of_first, none}, 2),
                   roi_align(images, kBoxes.narrow(0, 0, 1), 2), 0) == "");
  CHECK(difference(roi_align(images.narrow(0, 0, 1), {of_first}, 2),
                   roi_align(images, kBoxes.narrow(0, 0, 1), 2), 0) == "");
  CHECK(roi_align(images, {none, none}, 2).shape() == Shape{0, 3, 2, 2});
  CHECK(roi_align(images, {none, none}, 2, {.sampling_ratio = 2}).shape() == Shape{0, 3, 2, 2});
}

TEST_CASE("roi_align: gradients agree with finite differences, twice") {
  manual_seed(42);
  const Tensor x = f64({2, 2, 4, 5}), boxes = kBoxes.narrow(0, 0, 3);
  // clang-format off
  const GradientCase cases[] = {
      {"roi_align", [&](In in) { return roi_align(in[0], beside(in, boxes), 2); }, {x}},
      {"roi_align aligned", [&](In in) { return roi_align(in[0], beside(in, boxes), {1, 2}, {.spatial_scale = 0.5, .sampling_ratio = 2, .aligned = true}); }, {x}},
  };
  // clang-format on
  for (const GradientCase& c : cases) check_gradients(c);
  const Tensor leaf = boxes.clone().requires_grad_();
  CHECK_FALSE(roi_align(x, leaf, 2).requires_grad());
}

TEST_CASE("roi_align: a pixel that no point reads has no effect") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const Device device : devices()) {
    CAPTURE(device);
    Values pixels(36, 1.0);
    for (size_t i = 0; i < 6; ++i) pixels[i] = kNan, pixels[6 * i] = kInf;
    const Tensor x = reshape(tensor(pixels, kF64), {1, 1, 6, 6}).to(device).detach();
    x.requires_grad_();
    // Inside; beyond the last pixel; outside; of fewer points than the largest.
    const Tensor boxes = tensor({{0.0, 2.0, 2.0, 4.0, 4.0},
                                 {0.0, 4.0, 4.0, 9.0, 9.0},
                                 {0.0, -9.0, -9.0, -5.0, -5.0},
                                 {0.0, 3.0, 3.0, 3.5, 3.5}},
                                kF64);
    for (const RoiAlignOptions& o : {RoiAlignOptions{}, RoiAlignOptions{.sampling_ratio = 2}}) {
      x.set_grad({});
      const Tensor y = roi_align(x, boxes.to(device), 1, o);
      const Images clean{Values(36, 1.0), x.shape()};
      const Values want = by_points(clean, boxes.to_vector<double>(), 1, o);
      CHECK(difference(y.detach().cpu(), want, 1e-12) == "");
      y.sum().backward();
      CHECK(all_finite(x.grad()));
    }
  }
}

TEST_CASE("roi_align: a box far larger than the image looks at the image's points only") {
  manual_seed(43);
  const Tensor images = f64({1, 1, 4, 5});
  const Images reference{images.to_vector<double>(), images.shape()};
  const Tensor boxes = tensor({{0.0, -1e5, 1.0, 1e5, 2.0},
                               {0.0, -3.0, -2e5, 4.0, 1e3},
                               {0.0, 0.5, 1.5, 2.5, 3.5},
                               {0.0, -20.0, -7.0, 31.0, 17.5}},
                              kF64);
  for (const bool aligned : {false, true}) {
    const RoiAlignOptions o{.aligned = aligned};
    for (const Pair size : {Pair(1), Pair(3, 2)}) {
      const Values want = by_points(reference, boxes.to_vector<double>(), size, o);
      CHECK(difference(roi_align(images, boxes, size, o), want, 1e-9) == "");
    }
  }
  for (const double side : {1e7, 1e19, 1e300}) {
    const Tensor huge = tensor({{0.0, 0.0, 0.0, side, side}}, kF64);
    CHECK(all_finite(roi_align(images, huge, 2)));
  }
}

TEST_CASE("roi_align: a list may have more images than x's dtype can count") {
  const Tensor x = reshape(remainder(arange(300), 200).to(kBF16), {300, 1, 1, 1});
  const Tensors boxes(300, tensor({{0.f, 0.f, 1.f, 1.f}}).to(kBF16));
  CHECK(difference(roi_align(x, boxes, 1, {.sampling_ratio = 1}).flatten(), x.flatten(), 0) == "");
}

TEST_CASE("roi_align: errors name the op and the values") {
  const Tensor x = zeros({2, 3, 4, 4}), boxes = zeros({1, 5});
  CHECK_THROWS_WITH_AS(roi_align(x, zeros({1, 4}), 2), Contains("roi_align: boxes must be [K,5]"),
                       ShapeError);
  CHECK_THROWS_AS(roi_align(x[0], boxes, 2), ShapeError);
  CHECK_THROWS_AS(roi_align(zeros({2, 3, 0, 4}), boxes, 2), ShapeError);
  CHECK_THROWS_AS(roi_align(x, boxes.to(kF64), 2), DTypeError);
  CHECK_THROWS_AS(roi_align(x.to(kI64), boxes.to(kI64), 2), DTypeError);
  CHECK_THROWS_WITH_AS(roi_align(x, boxes, {2, 0}),
                       Contains("roi_align: output_size must be positive, got [2,0]"), ValueError);
  CHECK_THROWS_WITH_AS(roi_align(x, boxes + 2, 2),
                       Contains("roi_align: index 2 at [0] is outside [0, 2)"), IndexError);
  CHECK_THROWS_WITH_AS(roi_align(x, Tensors{zeros({1, 4})}, 2),
                       Contains("roi_align: expected a list of one tensor of boxes for each image "
                                "of x, got a list of length 1"),
                       ShapeError);
  CHECK_THROWS_AS(roi_align(x, {zeros({1, 4}), zeros({1, 5})}, 2), ShapeError);
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor wide = tensor({{0.f, 0.f, 0.f, 1.f, 1.f}, {0.f, 0.f, 0.5f, inf, 1.f}});
  CHECK_THROWS_WITH_AS(roi_align(x, wide, 2),
                       Contains("roi_align: box 1 has sides that are not finite: x1 0, y1 0.5, x2 "
                                "inf, y2 1 (boxes: f32[2,4]"),
                       ValueError);
  const Tensor unknown = tensor({{0.f, 0.f, 0.f, 1.f, std::nanf("")}});
  CHECK_THROWS_WITH_AS(roi_align(x, unknown, 2), Contains("roi_align: box 0 has sides"),
                       ValueError);
  // With a sampling_ratio its points are just not in the image.
  CHECK(difference(roi_align(x + 1, unknown, 1, {.sampling_ratio = 1}).flatten(), {0, 0, 0}, 0) ==
        "");
}
