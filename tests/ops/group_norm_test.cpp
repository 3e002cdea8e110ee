// group_norm against the definition in f64, in every layout and dtype; gradients, errors.
#include "lathe/ops/group_norm.h"

#include "lathe/autograd/autocast.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/layer_norm.h"
#include "normalised_rows.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct GroupCase {
  Shape x;
  int64_t groups;
};
const GroupCase kGroupCases[] = {
    {{2, 4, 3, 5}, 2}, {{2, 4, 3, 5}, 1}, {{2, 4, 3, 5}, 4}, {{3, 6}, 3},
    {{2, 6, 7}, 2},    {{40, 4, 9}, 2},   {{0, 4, 3}, 2},
};

}  // namespace

TEST_CASE("group_norm: values agree with the definition in every layout and dtype") {
  manual_seed(10);
  for (const GroupCase& c : kGroupCases) {
    const Tensor wide = f64(c.x);
    const int64_t inner = numel_of(c.x) == 0 ? 1 : numel_of(c.x) / (c.x[0] * c.x[1]);
    const auto size = static_cast<size_t>(c.x[1] / c.groups * inner);
    for_affine({c.x[1]}, [&](const Tensor& w, const Tensor& b) {
      for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
        for (const Layout& layout : layouts()) {
          const Tensor x = layout.apply(wide.to(dtype)), wt = in_dtype(w, dtype),
                       bt = in_dtype(b, dtype);
          const Values want =
              normalised_rows(x.to_vector<double>(), size, static_cast<size_t>(c.groups),
                              static_cast<size_t>(inner), values_of(wt), values_of(bt));
          const std::string wrong = difference(group_norm(x, c.groups, {.weight = wt, .bias = bt}),
                                               want, tolerance_of(dtype));
          CHECK_MESSAGE(wrong.empty(), concat(x, " ", layout.name, ": "), wrong);
        }
      }
    });
  }
}

TEST_CASE("group_norm: one group of a [N,C] tensor is layer_norm; autocast") {
  const Tensor x = randn({5, 12}), w = randn({12}), b = randn({12});
  CHECK(difference(group_norm(x, 1, {.weight = w, .bias = b}),
                   layer_norm(x, {12}, {.weight = w, .bias = b}), 1e-6)
            .empty());
  const Autocast half(kCPU, kF16);
  CHECK(group_norm(zeros({2, 3}, {.dtype = kF16}), 3).dtype() == kF32);
}

TEST_CASE("group_norm: gradients agree with finite differences") {
  manual_seed(12);
  // eps = 0.1: an expanded input has variance 0, where 1 / sqrt(1e-5) is too steep for finite
  // differences.
  const auto affine = [](const Tensors& in) {
    return group_norm(in[0], 2, {.weight = in[1], .bias = in[2], .eps = 0.1});
  };
  check_gradients({"group_norm", affine, {f64({2, 4, 3}), f64({4}), f64({4})}});
  check_gradients({"group_norm plain",
                   [](const Tensors& in) { return group_norm(in[0], 3, {.eps = 0.1}); },
                   {f64({2, 3, 2, 2})}});
}

TEST_CASE("group_norm: the fused gradient equals the one made of ops") {
  check_fused_gradient({6}, [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return group_norm(x, 3, {.weight = w, .bias = b});
  });
}

TEST_CASE("group_norm: errors name the op and the values") {
  const Tensor x = zeros({2, 6});
  CHECK_THROWS_WITH_AS(
      group_norm(x, 4),
      doctest::Contains("group_norm: 6 channels do not divide into 4 groups (x: f32[2,6]@cpu)"),
      ShapeError);
  CHECK_THROWS_WITH_AS(group_norm(x, 0), doctest::Contains("groups must be positive, got 0"),
                       ValueError);
  CHECK_THROWS_AS(group_norm(zeros({6}), 2), ShapeError);
  CHECK_THROWS_AS(group_norm(x, 2, {.bias = ones({2})}), ShapeError);
  CHECK_THROWS_AS(group_norm(x.to(kI64), 2), DTypeError);
}
