// roi_align: a bin is a weighted sum of pixels, four for each of its points. So embedding_bag of
// the pixels computes it. Contract: roi_align.h.
#include "lathe/ops/roi_align.h"

#include <cmath>

#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
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

/// The points of a bin, for each box [K], and the largest of them.
struct PointCount {
  Tensor of_box;
  int64_t most = 0;
};

PointCount count_points(const Tensor& bin, int64_t sampling_ratio) {
  if (sampling_ratio > 0) {
    return {full_like(bin, static_cast<double>(sampling_ratio)), sampling_ratio};
  }
  const Tensor count = clamp(ceil(bin), {.low = 0});
  if (count.numel() == 0) return {count, 0};
  const auto most = max(count).item<double>();
  LATHE_CHECK(ValueError, std::isfinite(most), kRoiAlign, ": a box has no finite sides");
  return {count, static_cast<int64_t>(most)};
}

/// For boxes from `begin` [K] to `end` [K] on an axis of `size` pixels.
AxisReads reads_along(const Tensor& begin, const Tensor& end, int64_t bins, int64_t size,
                      const RoiAlignOptions& opt) {
  const auto of_box = [](const Tensor& t) { return reshape(t, {t.numel(), 1, 1}); };
  const auto numbers = [&](int64_t n) { return arange(n, begin.options()); };
  const Tensor length = opt.aligned ? sub(end, begin) : clamp(sub(end, begin), {.low = 1});
  const Tensor bin = div(length, static_cast<double>(bins));
  const PointCount points = count_points(bin, opt.sampling_ratio);
  const Tensor count = of_box(points.of_box), number = numbers(points.most);
  const Tensor in_bins = add(reshape(numbers(bins), {bins, 1}), div(add(number, 0.5), count));
  const Tensor at = add(of_box(begin), mul(in_bins, of_box(bin)));
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
  LATHE_CHECK(ShapeError, boxes.ndim() == 2 && boxes.dim(1) == 5, kRoiAlign,
              ": boxes must be [K,5], or a list of a tensor [K,4] for each image (x: ", x,
              ", boxes: ", boxes, ")");
  LATHE_CHECK(ValueError, size > 0, kRoiAlign, ": output_size must be positive, got ", size);
}

}  // namespace

Tensor roi_align(const Tensor& x_in, const Tensor& boxes_in, Pair output_size,
                 const RoiAlignOptions& opt) {
  // In braces one tensor is a tensor, not a list.
  const bool of_one = x_in.ndim() == 4 && x_in.dim(0) == 1 && boxes_in.ndim() == 2;
  if (of_one && boxes_in.dim(1) == 4) return roi_align(x_in, Tensors{boxes_in}, output_size, opt);
  const profile::OpRange range(kRoiAlign, {x_in, boxes_in});
  check_roi_align(x_in, boxes_in, output_size);
  const DType wide = compute_dtype(x_in.dtype());
  const Tensor x = cast(x_in, wide), boxes = cast(boxes_in.detach(), wide);
  const int64_t images = x.dim(0), channels = x.dim(1), height = x.dim(2), width = x.dim(3);
  const int64_t count = boxes.dim(0), rows = output_size.rows, columns = output_size.cols;
  const Tensor image = cast(select(boxes, 1, 0), kI64);
  check_index(kRoiAlign, image, images);
  const Tensor corners =
      sub(mul(narrow(boxes, 1, 1, 4), opt.spatial_scale), opt.aligned ? 0.5 : 0.0);
  const auto corner = [&](int64_t k) { return select(corners, 1, k); };
  const AxisReads down = reads_along(corner(1), corner(3), rows, height, opt);
  const AxisReads across = reads_along(corner(0), corner(2), columns, width, opt);
  const int64_t points_down = down.pixel[0].dim(2), points_across = across.pixel[0].dim(2);
  const auto by_row = [&](const Tensor& t) { return reshape(t, {count, rows, 1, points_down, 1}); };
  const auto by_column = [&](const Tensor& t) {
    return reshape(t, {count, 1, columns, 1, points_across});
  };
  const Shape bags{count * rows * columns, points_down * points_across};
  const Tensor pixels = reshape(permute(x, {0, 2, 3, 1}), {images * height * width, channels});
  const Tensor begin = reshape(mul(image, height * width), {count, 1, 1, 1, 1});
  Tensor y;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const Tensor in_image = add(by_row(mul(down.pixel[i], width)), by_column(across.pixel[j]));
      const Tensor weight = mul(by_row(down.weight[i]), by_column(across.weight[j]));
      const Tensor sums = embedding_bag(
          pixels, reshape(add(in_image, begin), bags),
          {.mode = EmbeddingBagMode::kSum, .per_sample_weights = reshape(weight, bags)});
      y = y.defined() ? add(y, sums) : sums;
    }
  }
  y = permute(reshape(y, {count, rows, columns, channels}), {0, 3, 1, 2});
  return cast(contiguous(y), x_in.dtype());
}

Tensor roi_align(const Tensor& x, const Tensors& boxes, Pair output_size,
                 const RoiAlignOptions& opt) {
  LATHE_CHECK(ShapeError, x.ndim() > 0 && x.dim(0) == static_cast<int64_t>(boxes.size()), kRoiAlign,
              ": there are ", boxes.size(), " tensors of boxes, and not one for each image (x: ", x,
              ")");
  Tensors all{zeros({0, 5}, x.options())};
  for (size_t n = 0; n < boxes.size(); ++n) {
    LATHE_CHECK(ShapeError, boxes[n].ndim() == 2 && boxes[n].dim(1) == 4, kRoiAlign,
                ": the boxes of image ", n, " must be [K,4] (boxes: ", boxes[n], ")");
    check_operands(kRoiAlign, OperandDType::kFloating, "x", x, "boxes", boxes[n]);
    const Tensor numbers = full({boxes[n].dim(0), 1}, static_cast<double>(n), x.options());
    all.push_back(cat({numbers, boxes[n].detach()}, 1));
  }
  return roi_align(x, cat(all), output_size, opt);
}

}  // namespace lathe
