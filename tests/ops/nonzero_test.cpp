// nonzero, masked_select and masked_scatter.
#include "lathe/ops/nonzero.h"

#include <limits>

#include "compare.h"
#include "lathe/core/thread_pool.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using Values = std::vector<double>;
using In = const Tensors&;

}  // namespace

TEST_CASE("nonzero: coordinates row by row, in every layout and dtype, on every device") {
  manual_seed(16);
  for (const Device device : devices()) {
    for (const DType dtype : {kBool, kU8, kI64, kF16, kF32, kF64}) {
      for (const Shape& shape : {Shape{7}, Shape{3, 5}, Shape{2, 3, 4}, Shape{1, 1}, Shape{2, 0}}) {
        const Tensor host = cast(randint(0, 2, shape), dtype);
        Values want;
        const Values values = host.to_vector<double>();
        for (int64_t i = 0; i < host.numel(); ++i) {
          if (values[static_cast<size_t>(i)] == 0) continue;
          const Strides strides = contiguous_strides(shape);
          for (int d = 0; d < shape.size(); ++d) {
            want.push_back(static_cast<double>(i / strides[d] % shape[d]));
          }
        }
        for (const Layout& layout : layouts()) {
          CAPTURE(concat(host, " ", layout.name, " on ", device));
          const Tensor found = nonzero(layout.apply(host).to(device));
          CHECK(found.dtype() == kI64);
          CHECK(found.dim(1) == shape.size());
          CHECK(difference(found.cpu(), want, 0) == "");
        }
      }
    }
    CHECK(nonzero(tensor(2.0, kF64).to(device)).shape() == Shape{1, 0});
    CHECK(nonzero(tensor(0.0, kF64).to(device)).shape() == Shape{0, 0});
    CHECK(nonzero(zeros({3, 4}, {.device = device})).shape() == Shape{0, 2});
  }
  CHECK(nonzero(tensor({-0.0, std::nan(""), -1.0}, kF64)).to_vector<int>() ==
        std::vector<int>{1, 2});
}

TEST_CASE("nonzero, masked_select: many elements, rows across blocks, any number of threads") {
  manual_seed(18);
  const int before = num_threads();
  for (const Shape& shape :
       {Shape{70'001}, Shape{3, 40'000}, Shape{300, 2, 120}, Shape{40'000, 2}}) {
    const Tensor mask = rand(shape) > 0.6, x = randn(shape);
    const std::vector<int> bits = mask.to_vector<int>();
    const std::vector<float> values = x.to_vector<float>();
    const Strides strides = contiguous_strides(shape);
    std::vector<int64_t> want;
    std::vector<float> chosen;
    for (size_t i = 0; i < bits.size(); ++i) {
      if (bits[i] == 0) continue;
      chosen.push_back(values[i]);
      for (int d = 0; d < shape.size(); ++d) {
        want.push_back(static_cast<int64_t>(i) / strides[d] % shape[d]);
      }
    }
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      CHECK(nonzero(mask).to_vector<int64_t>() == want);
      CHECK(masked_select(x, mask).to_vector<float>() == chosen);
    }
    set_num_threads(before);
  }
}

TEST_CASE("masked_select, masked_scatter: values on every device") {
  for (const Device device : devices()) {
    for (const Layout& layout : layouts()) {
      CAPTURE(concat(layout.name, " on ", device));
      const Tensor x = layout.apply(arange(6, {.dtype = kF32}).view({2, 3})).to(device);
      const Tensor mask = layout.apply(gt(tensor({{1, 0, 1}, {0, 1, 0}}), 0)).to(device);
      CHECK(difference(masked_select(x, mask).cpu(), {0, 2, 4}, 0) == "");
      CHECK(difference(masked_select(x, mask[0]).cpu(), {0, 2, 3, 5}, 0) == "");
      CHECK(difference(masked_select(x[1], mask).cpu(), {3, 5, 4}, 0) == "");
      const Tensor source = layout.apply(tensor({{7.f, 8.f}, {9.f, 10.f}})).to(device);
      CHECK(difference(masked_scatter(x, mask, source).cpu(), {7, 1, 8, 3, 9, 5}, 0) == "");
      CHECK(difference(masked_scatter(x, mask[0], source).cpu(), {7, 1, 8, 9, 4, 10}, 0) == "");
      const Tensor none = zeros({3}, {.dtype = kBool, .device = device});
      CHECK(masked_select(x, none).shape() == Shape{0});
      CHECK(difference(masked_scatter(x, none, zeros({0}, {.device = device})).cpu(), x.cpu(), 0) ==
            "");
    }
  }
  CHECK(masked_select(tensor(3), tensor(true)).to_vector<int>() == std::vector<int>{3});
  CHECK(masked_select(zeros({0, 2}), zeros({2}, {.dtype = kBool})).shape() == Shape{0});
  CHECK(masked_scatter(zeros({0, 2}), zeros({2}, {.dtype = kBool}), zeros({1})).shape() ==
        Shape{0, 2});
}

TEST_CASE("masked_select, masked_scatter: gradients agree with finite differences, twice") {
  manual_seed(17);
  const Tensor mask = gt(tensor({{1, 0, 1, 1}, {0, 1, 0, 0}, {0, 0, 1, 0}}), 0);
  const auto at = [&](In in) { return mask.to(in[0].device()); };
  const GradientCase cases[] = {
      {"masked_select", [&](In in) { return masked_select(in[0], at(in)); }, {f64({3, 4})}},
      {"masked_scatter",
       [&](In in) { return masked_scatter(in[0], at(in), in[1]); },
       {f64({3, 4}), f64({2, 3})}},
  };
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("nonzero: errors name the op and the tensors") {
  const Tensor x = zeros({2, 3}), mask = ones({2, 3}, {.dtype = kBool});
  CHECK_THROWS_WITH_AS(masked_select(x, x),
                       Contains("masked_select: mask must be bool (mask: f32[2,3]@cpu)"),
                       DTypeError);
  CHECK_THROWS_AS(masked_select(x, ones({2}, {.dtype = kBool})), ShapeError);
  CHECK_THROWS_WITH_AS(masked_scatter(x, mask, ones({5})), Contains("masked_scatter"), IndexError);
  CHECK_THROWS_AS(masked_scatter(x, mask, ones({0})), IndexError);
  CHECK_THROWS_AS(masked_scatter(x, mask, ones({6}, {.dtype = kF64})), DTypeError);
  CHECK_THROWS_AS(masked_scatter(x[0], mask, ones({6})), ShapeError);
}
