// Boxes against torchvision's numbers (0.29, f64).
#include "lathe/ops/boxes.h"

#include "compare.h"
#include "lathe/ops/join.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {
using In = const Tensors&;
const Tensor kBoxes = tensor({{0.0, 0.0, 10.0, 10.0},
                              {1.0, 1.0, 11.0, 11.0},
                              {20.0, 20.0, 30.0, 30.0},
                              {0.0, 0.0, 10.0, 5.0},
                              {21.0, 20.0, 31.0, 30.0}},
                             kF64);
}  // namespace

TEST_CASE("box_area, box_iou: values in every layout and dtype, on every device") {
  for (const Device device : devices()) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      for (const Layout& layout : layouts()) {
        CAPTURE(concat(dtype, " ", layout.name, " on ", device));
        const Tensor boxes = layout.apply(kBoxes.to(dtype)).to(device);
        CHECK(difference(box_area(boxes).cpu(), {100, 100, 100, 50, 100}, tolerance_of(dtype)) ==
              "");
        const Tensor iou = box_iou(boxes, boxes.narrow(0, 1, 3));
        CHECK(iou.dtype() == dtype);
        CHECK(difference(iou.cpu(),
                         {0.680672268907563, 0, 0.5, 1, 0, 0.3157894736842105, 0, 1, 0,
                          0.3157894736842105, 0, 1, 0, 0.8181818181818182, 0},
                         tolerance_of(dtype)) == "");
      }
    }
  }
  CHECK(box_iou(zeros({0, 4}), zeros({3, 4})).shape() == Shape{0, 3});
}

TEST_CASE("nms: the boxes that stay, by descending score") {
  const Tensor scores = tensor({0.9, 0.8, 0.7, 0.95, 0.7}, kF64);
  for (const Device device : devices()) {
    for (const DType dtype : {kF64, kF32, kF16}) {
      const Tensor boxes = kBoxes.to(dtype).to(device), s = scores.to(dtype).to(device);
      CHECK(nms(boxes, s, 0.45).device() == device);
      CHECK(nms(boxes, s, 0.45).cpu().to_vector<int>() == std::vector<int>{3, 1, 2});
      CHECK(nms(boxes, s, 0.7).cpu().to_vector<int>() == std::vector<int>{3, 0, 1, 2});
    }
  }
  CHECK(nms(zeros({0, 4}), zeros({0}), 0.5).shape() == Shape{0});
}

TEST_CASE("boxes: gradients agree with finite differences, twice") {
  manual_seed(61);
  const auto boxes = [](const Tensor& corners, const Tensor& sizes) {
    return cat({corners, corners + sizes}, 1);
  };
  const Tensor corners = f64_in({3, 2}, 0.0, 1.0), sizes = f64_in({3, 2}, 2.0, 3.0);
  const Tensor others = f64_in({2, 2}, 0.0, 1.0), wide = f64_in({2, 2}, 2.0, 3.0);
  // clang-format off
  const GradientCase cases[] = {
      {"box_area", [&](In in) { return box_area(boxes(in[0], in[1])); }, {corners, sizes}},
      {"box_iou", [&](In in) { return box_iou(boxes(in[0], in[1]), boxes(in[2], in[3])); }, {corners, sizes, others, wide}},
  };
  // clang-format on
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("boxes: errors name the op and the tensors") {
  CHECK_THROWS_WITH_AS(box_area(zeros({3, 5})),
                       Contains("box_area: boxes must be [N,4] (boxes: f32[3,5]@cpu)"), ShapeError);
  CHECK_THROWS_AS(box_iou(zeros({3, 4}), zeros({4})), ShapeError);
  CHECK_THROWS_AS(box_iou(zeros({3, 4}), zeros({3, 4}, kF64)), DTypeError);
  CHECK_THROWS_AS(box_area(zeros({3, 4}, kI64)), DTypeError);
  CHECK_THROWS_WITH_AS(nms(zeros({3, 4}), zeros({2}), 0.5), Contains("nms: scores must be [3]"),
                       ShapeError);
}
