// roi_align: checks and gradients. The CPU has loops, window_kernels/roi_align_cpu.cpp. On a GPU a
// bin is a weighted sum of pixels, four for each of its points, so embedding_bag of the pixels
// computes it. Graphs and debug scopes see its ops on the CPU too. Contract: roi_align.h.
#include "lathe/ops/roi_align.h"

#include <algorithm>
#include <cmath>

#include "lathe/autograd/record.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/visit.h"
#include "lathe/ops/argmax.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/embedding_bag.h"
#include "lathe/ops/index.h"
#include "lathe/ops/join.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

namespace {

constexpr const char* kRoiAlign = "roi_align";

/// What the points of all boxes read along one axis of the image: each point two neighbours. All
/// tensors are [K,bins,points]. The weights of a point are 0 outside of the image; otherwise the
/// weights of a bin add up to 1.
struct AxisReads {
  Tensor pixel[2];  // i64
  Tensor weight[2];
};

/// The points of a bin, for each box [K], and how many of them are looked at.
struct PointCount {
  Tensor of_box;
  int64_t looked_at = 0;
};

[[noreturn]] void fail_endless(const Tensor& boxes, int64_t box) {
  const auto sides = select(boxes, 0, box).to_vector<double>();
  LATHE_FAIL(ValueError, kRoiAlign, ": box ", box, " has sides that are not finite: x1 ", sides[0],
             ", y1 ", sides[1], ", x2 ", sides[2], ", y2 ", sides[3], " (boxes: ", boxes, ")");
}

/// Points are more than half a pixel apart, and `size` + 3 or more of them almost a whole one. So
/// no bin has more than size + 6 points at the image.
/// throws: ValueError for a box without finite sides; it names the first one.
PointCount count_points(const Tensor& bin, int64_t size, const Tensor& boxes, int64_t ratio) {
  if (ratio > 0) return {full_like(bin, static_cast<double>(ratio)), ratio};
  const Tensor count = clamp(ceil(bin), {.low = 0});
  if (count.numel() == 0) return {count, 0};
  const auto most = max(count).item<double>();
  if (!std::isfinite(most)) fail_endless(boxes, argmin(isfinite(count)).item<int64_t>());
  return {count, static_cast<int64_t>(std::min(most, static_cast<double>(size + 6)))};
}

/// For boxes [K,4] with corners from `begin` [K] to `end` [K] on an axis of `size` pixels.
AxisReads reads_along(const Tensor& begin, const Tensor& end, int64_t bins, int64_t size,
                      const Tensor& boxes, const RoiAlignOptions& opt) {
  const auto of_box = [](const Tensor& t) { return reshape(t, {t.numel(), 1, 1}); };
  const auto numbers = [&](int64_t n) { return arange(n, begin.options()); };
  const Tensor length = opt.aligned ? sub(end, begin) : clamp(sub(end, begin), {.low = 1});
  const Tensor side = div(length, static_cast<double>(bins));
  const PointCount points = count_points(side, size, boxes, opt.sampling_ratio);
  const Tensor count = of_box(points.of_box), bin = of_box(side), first_x = of_box(begin);
  const Tensor bin_number = reshape(numbers(bins), {bins, 1});
  // Of many points those are looked at that begin a little before pixel -1.
  const Tensor skipped = clamp(sub(count, static_cast<double>(points.looked_at)), {.low = 0});
  const Tensor edge = sub(div(sub(-1, first_x), bin), bin_number);  // in bins
  const Tensor before = clamp(floor(sub(mul(edge, count), 2)), {.low = 0});
  const Tensor number =
      add(where(gt(skipped, 0), minimum(before, skipped), 0), numbers(points.looked_at));
  const Tensor in_bins = add(bin_number, div(add(number, 0.5), count));
  const Tensor at = add(first_x, mul(in_bins, bin));
  const Tensor in_image = logical_and(ge(at, -1), le(at, size));
  const Tensor reads = logical_and(in_image, lt(number, count));
  const Tensor place = clamp(where(reads, at, 0), 0, size - 1), low = floor(place);
  const Tensor share = where(reads, div(1, count), 0), part = sub(place, low);
  const Tensor first = cast(low, kI64);
  return {{first, clamp(add(first, 1), {.high = size - 1})},
          {mul(share, sub(1, part)), mul(share, part)}};
}

void check_roi_align(const Tensor& x, const Tensor& boxes, Pair size) {
  check_operands(kRoiAlign, OperandDType::kFloating, "x", x, "boxes", boxes);
  LATHE_CHECK(ShapeError, x.ndim() == 4 && x.dim(2) > 0 && x.dim(3) > 0, kRoiAlign,
              ": x must be [N,C,H,W], with H and W above 0 (x: ", x, ")");
  LATHE_CHECK(ValueError, size > 0, kRoiAlign, ": output_size must be positive, got ", size);
}

/// The boxes after the checks. Both tensors were made in this call, so nobody writes them.
struct Regions {
  Tensor image;    // i64 [K], in range
  Tensor corners;  // [K,4]: x1, y1, x2, y2 among x's pixels
  Pair size;
  RoiAlignOptions options;
};

Tensor pooled(const Tensor& x, const Regions& regions);

/// The gradient of pooled()'s x: dy [K,C,P,Q] spread over the pixels of images of `shape`.
Tensor spread(const Tensor& dy, const Regions& regions, const Shape& shape) {
  const Tensor dx = empty(shape, {.dtype = dy.dtype()});
  cpu::roi_align_grad(dx, contiguous(dy.detach()), regions.image, regions.corners, regions.options);
  autograd::record("roi_align_grad", dx, {dy}, [regions](const Tensor& g, const autograd::Needs&) {
    return Tensors{pooled(g, regions)};
  });
  return dx;
}

/// The op on the CPU, of f32 or f64. It is linear in x, so its gradient and itself are each other's
/// gradient.
Tensor pooled(const Tensor& x, const Regions& regions) {
  const Tensor y = empty({regions.image.numel(), x.dim(1), regions.size.rows, regions.size.cols},
                         {.dtype = x.dtype()});
  cpu::roi_align(y, contiguous(x.detach()), regions.image, regions.corners, regions.options);
  autograd::record(kRoiAlign, y, {x},
                   [regions, shape = x.shape()](const Tensor& dy, const autograd::Needs&) {
                     return Tensors{spread(dy, regions, shape)};
                   });
  return y;
}

/// roi_align of image numbers (i64 [K], in range) and boxes [K,4], of x's dtype.
Tensor roi_align_of(const Tensor& x_in, const Tensor& image, const Tensor& boxes_in,
                    Pair output_size, const RoiAlignOptions& opt) {
  const DType wide = compute_dtype(x_in.dtype());
  const Tensor x = cast(x_in, wide), boxes = cast(boxes_in.detach(), wide);
  const int64_t images = x.dim(0), channels = x.dim(1), height = x.dim(2), width = x.dim(3);
  const int64_t count = boxes.dim(0), rows = output_size.rows, columns = output_size.cols;
  const Tensor corners = sub(mul(boxes, opt.spatial_scale), opt.aligned ? 0.5 : 0.0);
  if (x.device().is_cpu() && !profile::watched()) {
    const Regions regions{contiguous(image.detach()), contiguous(corners), output_size, opt};
    const int64_t endless =
        opt.sampling_ratio > 0 ? count : cpu::first_endless_box(regions.corners, output_size, opt);
    if (endless < count) fail_endless(boxes, endless);
    return cast(pooled(x, regions), x_in.dtype());
  }
  const auto corner = [&](int64_t k) { return select(corners, 1, k); };
  const AxisReads down = reads_along(corner(1), corner(3), rows, height, boxes, opt);
  const AxisReads across = reads_along(corner(0), corner(2), columns, width, boxes, opt);
  const int64_t points_down = down.pixel[0].dim(2), points_across = across.pixel[0].dim(2);
  const auto by_row = [&](const Tensor& t) { return reshape(t, {count, rows, 1, points_down, 1}); };
  const auto by_column = [&](const Tensor& t) {
    return reshape(t, {count, 1, columns, 1, points_across});
  };
  const Shape bags{count * rows * columns, points_down * points_across};
  // What has no weight reads a row of zeros behind the pixels: 0 times a NaN of x would be NaN.
  const int64_t pixels = images * height * width;
  const Tensor table = cat(
      {reshape(permute(x, {0, 2, 3, 1}), {pixels, channels}), zeros({1, channels}, x.options())});
  const Tensor begin = reshape(mul(image, height * width), {count, 1, 1, 1, 1});
  Tensor y;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const Tensor in_image = add(by_row(mul(down.pixel[i], width)), by_column(across.pixel[j]));
      const Tensor weight = mul(by_row(down.weight[i]), by_column(across.weight[j]));
      const Tensor place = masked_fill(add(in_image, begin), eq(weight, 0), pixels);
      const Tensor sums = embedding_bag(
          table, reshape(place, bags),
          {.mode = EmbeddingBagMode::kSum, .per_sample_weights = reshape(weight, bags)});
      y = y.defined() ? add(y, sums) : sums;
    }
  }
  y = permute(reshape(y, {count, rows, columns, channels}), {0, 3, 1, 2});
  return cast(contiguous(y), x_in.dtype());
}

}  // namespace

Tensor roi_align(const Tensor& x, const Tensor& boxes, Pair output_size,
                 const RoiAlignOptions& opt) {
  // In braces one tensor is a tensor, not a list.
  const bool of_one = x.ndim() == 4 && x.dim(0) == 1 && boxes.ndim() == 2;
  if (of_one && boxes.dim(1) == 4) return roi_align(x, Tensors{boxes}, output_size, opt);
  const profile::OpRange range(kRoiAlign, {x, boxes});
  check_roi_align(x, boxes, output_size);
  LATHE_CHECK(ShapeError, boxes.ndim() == 2 && boxes.dim(1) == 5, kRoiAlign,
              ": boxes must be [K,5], or a list of a tensor [K,4] for each image (x: ", x,
              ", boxes: ", boxes, ")");
  const Tensor image = cast(select(boxes, 1, 0), kI64);
  check_index(kRoiAlign, image, x.dim(0));
  return roi_align_of(x, image, narrow(boxes, 1, 1, 4), output_size, opt);
}

Tensor roi_align(const Tensor& x, const Tensors& boxes, Pair output_size,
                 const RoiAlignOptions& opt) {
  const profile::OpRange range(kRoiAlign, {x});
  LATHE_CHECK(ShapeError, x.ndim() > 0 && x.dim(0) == static_cast<int64_t>(boxes.size()), kRoiAlign,
              ": expected a list of one tensor of boxes for each image of x, got a list of length ",
              boxes.size(), " (x: ", x, ")");
  Tensors all{zeros({0, 4}, x.options())};
  Tensors images{zeros({0}, {.dtype = kI64, .device = x.device()})};
  for (size_t n = 0; n < boxes.size(); ++n) {
    check_roi_align(x, boxes[n], output_size);
    LATHE_CHECK(ShapeError, boxes[n].ndim() == 2 && boxes[n].dim(1) == 4, kRoiAlign,
                ": the boxes of image ", n, " must be [K,4] (boxes: ", boxes[n], ")");
    all.push_back(boxes[n].detach());
    images.push_back(full({boxes[n].dim(0)}, static_cast<int64_t>(n), images[0].options()));
  }
  check_roi_align(x, all[0], output_size);
  return roi_align_of(x, cat(images), cat(all), output_size, opt);
}

}  // namespace lathe
