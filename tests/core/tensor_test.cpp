// Tensors as handles: sharing, conversion out of them, methods, printing.
#include "lathe/core/tensor.h"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;

namespace {
std::string printed(const Tensor& t) {
  std::ostringstream out;
  out << t;
  return out.str();
}
}  // namespace

TEST_CASE("tensor: copies of a handle share, clones do not") {
  const Tensor a = tensor({1.f, 2.f}), b = a, c = a.clone();
  b.fill_(7);
  CHECK(a.to_vector<float>() == std::vector<float>{7, 7});
  CHECK(c.to_vector<float>() == std::vector<float>{1, 2});
  CHECK(b.is_same(a));
  CHECK(a.slice(0, 0, 1).shares_storage(a));
  CHECK_FALSE(Tensor().defined());
}

TEST_CASE("tensor: what is made like another has PyTorch's dense strides") {
  struct {
    Shape shape;
    Strides strides, like;
  } const cases[] = {{{4, 5}, {0, 1}, {5, 1}},  // expanded: row-major
                     {{4, 5}, {1, 0}, {5, 1}},
                     {{4, 5}, {0, 0}, {5, 1}},
                     {{4, 5}, {1, 4}, {1, 4}},  // transposed
                     {{4, 5}, {10, 2}, {5, 1}},
                     {{4, 5}, {1, 8}, {1, 4}},
                     {{2, 3, 4}, {4, 8, 1}, {4, 8, 1}},
                     {{2, 3, 4}, {1, 2, 6}, {1, 2, 6}},
                     {{2, 3, 4}, {1, 0, 2}, {1, 2, 6}},  // expanded and permuted
                     {{2, 3, 4}, {0, 1, 3}, {12, 1, 3}},
                     {{2, 3, 4}, {0, 1, 0}, {12, 4, 1}},
                     {{2, 3, 4}, {4, 0, 1}, {12, 4, 1}},
                     {{2, 3, 4}, {1, 2, 0}, {4, 8, 1}},
                     {{2, 3, 2, 2}, {12, 1, 6, 3}, {12, 1, 6, 3}},  // NHWC
                     {{2, 3, 2, 2}, {0, 1, 6, 3}, {12, 1, 6, 3}},
                     {{2, 3, 2, 2}, {24, 1, 12, 6}, {12, 1, 6, 3}},
                     {{2, 3, 2, 2}, {3, 1, 0, 0}, {12, 4, 2, 1}},
                     {{4, 4}, {1, 1}, {4, 1}},  // overlapping
                     {{4, 2}, {1, 1}, {2, 1}}};
  for (const auto& c : cases) {
    CAPTURE(c.shape);
    CAPTURE(c.strides);
    const Tensor x = as_strided(zeros({100}), c.shape, c.strides, 0);
    const Tensor all[] = {
        empty_like(x), zeros_like(x), full_like(x, 1), rand_like(x), x.clone(),
        randn_like(x), x.to(kF64),    relu(x),         -x,           x.clamp(-1, 1),
        x.isnan(),     sigmoid(x),    gelu(x),         softplus(x),  x.pow(2),
        x.clamp_min(0)};
    for (const Tensor& y : all) CHECK(y.strides() == c.like);
  }
  const Tensor wide = relu(randn({1, 5}).expand({4, 5}));
  wide.flatten().zero_();  // a view
  CHECK(wide.sum().item<float>() == 0);
  CHECK(wide.view({20}).shape() == Shape{20});
}

TEST_CASE("tensor: empty_strided has room for the gaps between its elements") {
  const Tensor t = empty_strided({3, 2}, {4000, 1000}, kF64, kCPU);
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 2; ++j) t.data<double>()[4000 * i + 1000 * j] = i + 0.5 * j;
  }
  CHECK(t.to_vector<double>() == std::vector<double>{0, 0.5, 1, 1.5, 2, 2.5});
  CHECK(empty_strided({0, 2}, {4000, 1000}, kF64, kCPU).numel() == 0);
  CHECK_THROWS_WITH_AS(empty_strided({3, 3}, {int64_t{1} << 62, 1}, kF64, kCPU),
                       doctest::Contains("does not fit an int64"), ShapeError);
}

TEST_CASE("tensor: values leave it converted, one by one or all") {
  const Tensor t = tensor({{1.5, -2.0}, {3.25, 0.0}}, kF64).transpose(0, 1);
  CHECK(t.to_vector<int>() == std::vector<int>{1, 3, -2, 0});
  CHECK(t.select(0, 1).select(0, 0).item<float>() == -2.f);
  CHECK_THROWS_WITH_AS(t.item<float>(), doctest::Contains("item: expected one element"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(t.item<int>(), doctest::Contains("item: expected one element"), ShapeError);
  for (const double outside : {1e30, -1e30, double(INFINITY), double(NAN)}) {
    const Tensor one = tensor({outside});
    CHECK(one.item<int64_t>() == INT64_MIN);
    CHECK(one.item<int64_t>() == one.to_vector<int64_t>()[0]);
  }
  CHECK(tensor({-2.75}, kF64).item<int>() == -2);
  CHECK(tensor({0.5}, kF64).item<bool>());
  CHECK_THROWS_WITH_AS(t.data<float>(), doctest::Contains("asked for f32 of a tensor of f64"),
                       DTypeError);
  CHECK(*t.data<double>() == 1.5);
}

TEST_CASE("tensor: dtype conversions as methods") {
  const Tensor t = tensor({1.75f, -1.75f});
  CHECK(t.to(kI64).to_vector<int64_t>() == std::vector<int64_t>{1, -1});
  CHECK(t.to(kF16).dtype() == kF16);
  CHECK(t.to(kBool).to_vector<int>() == std::vector<int>{1, 1});
  CHECK(t.to(kF32).is_same(t));
}

TEST_CASE("tensor: printing shows values, then dtype, shape and device") {
  CHECK(printed(tensor({{1.f, 2.5f}, {-3.f, 4.f}})) == "[[  1, 2.5],\n [ -3,   4]]\nf32[2,2]@cpu");
  CHECK(printed(tensor({true, false})) == "[ true, false]\nbool[2]@cpu");
  CHECK(printed(tensor(2.0, kF64)) == "2\nf64[]@cpu");
  CHECK(printed(tensor(std::copysign(NAN, -1.0), kF64)) == "nan\nf64[]@cpu");
  CHECK(printed(zeros({0, 3})) == "[]\nf32[0,3]@cpu");
  CHECK(printed(Tensor()) == "undefined");
  CHECK(printed(tensor({{1, 2}, {3, 4}}, kI32).transpose(0, 1)) ==
        "[[1, 3],\n [2, 4]]\ni32[2,2]@cpu");
  const int64_t large = (int64_t{1} << 62) + 1;  // more digits than a double holds
  CHECK(printed(tensor({large, int64_t{0}})) ==
        "[4611686018427387905,                   0]\ni64[2]@cpu");
  CHECK(printed(arange(1001)) == "[0, 1, 2, ..., 998, 999, 1000]\ni64[1001]@cpu");
  CHECK(concat(zeros({2, 3}, {.dtype = kI8})) == "i8[2,3]@cpu");
}
