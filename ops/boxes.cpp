// Boxes, by elementwise ops; nms goes through the boxes one by one. Contracts: boxes.h.
#include "lathe/ops/boxes.h"

#include <algorithm>
#include <vector>

#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/sort.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe {

namespace {

void check_boxes(const char* op, const Tensor& boxes) {
  check_floating(op, boxes);
  LATHE_CHECK(ShapeError, boxes.ndim() == 2 && boxes.dim(1) == 4, op,
              ": boxes must be [N,4] (boxes: ", boxes, ")");
}

Tensor area_of(const Tensor& boxes) {
  const auto side = [&](int64_t axis) {
    return sub(select(boxes, 1, axis + 2), select(boxes, 1, axis));
  };
  return mul(side(0), side(1));
}

/// Corners as nms() compares them.
template <class T>
struct Box {
  T x1, y1, x2, y2;

  T area() const { return (x2 - x1) * (y2 - y1); }
  T shared_with(const Box& other) const {
    const T width = std::min(x2, other.x2) - std::max(x1, other.x1);
    const T height = std::min(y2, other.y2) - std::max(y1, other.y1);
    return std::max(width, T(0)) * std::max(height, T(0));
  }
};

/// The indices of the boxes that stay. `boxes` holds four numbers of each; `order` is by
/// descending score.
template <class T>
std::vector<int64_t> kept_boxes(const std::vector<T>& boxes, const std::vector<int64_t>& order,
                                double threshold) {
  std::vector<int64_t> kept;
  std::vector<Box<T>> stay;
  for (const int64_t i : order) {
    const T* const b = boxes.data() + 4 * i;
    const Box<T> box{b[0], b[1], b[2], b[3]};
    const bool goes = std::any_of(stay.begin(), stay.end(), [&](const Box<T>& higher) {
      const T shared = higher.shared_with(box);
      return static_cast<double>(shared / (higher.area() + box.area() - shared)) > threshold;
    });
    if (goes) continue;
    kept.push_back(i);
    stay.push_back(box);
  }
  return kept;
}

}  // namespace

Tensor box_area(const Tensor& boxes) {
  const profile::OpRange range("box_area", {boxes});
  check_boxes("box_area", boxes);
  return cast(area_of(cast(boxes, compute_dtype(boxes.dtype()))), boxes.dtype());
}

Tensor box_iou(const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range("box_iou", {a_in, b_in});
  check_boxes("box_iou", a_in);
  check_boxes("box_iou", b_in);
  check_operands("box_iou", OperandDType::kFloating, "a", a_in, "b", b_in);
  const DType wide = compute_dtype(a_in.dtype());
  const Tensor a = unsqueeze(cast(a_in, wide), 1), b = cast(b_in, wide);
  const Tensor low = maximum(narrow(a, -1, 0, 2), narrow(b, -1, 0, 2));
  const Tensor high = minimum(narrow(a, -1, 2, 2), narrow(b, -1, 2, 2));
  const Tensor sides = clamp(sub(high, low), {.low = 0});
  const Tensor shared = mul(select(sides, -1, 0), select(sides, -1, 1));
  const Tensor both = sub(add(unsqueeze(area_of(select(a, 1, 0)), 1), area_of(b)), shared);
  return cast(div(shared, both), a_in.dtype());
}

Tensor nms(const Tensor& boxes, const Tensor& scores, double threshold) {
  const profile::OpRange range("nms", {boxes, scores});
  check_boxes("nms", boxes);
  check_floating("nms", scores);
  LATHE_CHECK(ShapeError, scores.ndim() == 1 && scores.dim(0) == boxes.dim(0),
              "nms: scores must be [", boxes.dim(0), "] (boxes: ", boxes, ", scores: ", scores,
              ")");
  LATHE_CHECK(DeviceError, scores.device() == boxes.device(),
              "nms: scores are on another device (boxes: ", boxes, ", scores: ", scores, ")");
  const auto order = argsort(scores, 0, {.descending = true}).to_vector<int64_t>();
  const auto kept = boxes.dtype() == kF64 ? kept_boxes(boxes.to_vector<double>(), order, threshold)
                                          : kept_boxes(boxes.to_vector<float>(), order, threshold);
  if (kept.empty()) return empty({0}, {.dtype = kI64, .device = boxes.device()});
  return tensor(kept, {.device = boxes.device()});
}

}  // namespace lathe
