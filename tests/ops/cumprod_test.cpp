// cumprod against the definition.
#include "lathe/ops/cumprod.h"

#include "compare.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("cumprod: running products along every dimension, layout and dtype") {
  manual_seed(23);
  for (const Shape& shape : {Shape{7}, Shape{2, 5, 3}, Shape{1, 1}, Shape{2, 0}, Shape{0, 2},
                             Shape{33}, Shape{9, 5}, Shape{2, 3, 70}}) {
    for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
      const Tensor wide = (rand(shape, {.dtype = kF64}) + 0.5).to(dtype);
      for (int dim = 0; dim < shape.size(); ++dim) {
        std::vector<double> want = wide.to_vector<double>();
        const int64_t step = contiguous_strides(shape)[dim];
        for (size_t i = 0; i < want.size(); ++i) {
          const auto at = static_cast<int64_t>(i);
          if (at / step % shape[dim] > 0) want[i] *= want[static_cast<size_t>(at - step)];
        }
        for (const Layout& layout : layouts()) {
          CAPTURE(concat(wide, " along ", dim, " ", layout.name));
          const Tensor y = cumprod(layout.apply(wide), dim);
          CHECK(y.dtype() == dtype);
          CHECK(difference(y, want, 2 * tolerance_of(dtype)) == "");
        }
      }
    }
  }
  CHECK(cumprod(tensor({2, -3, 4}), -1).to_vector<int>() == std::vector<int>{2, -6, -24});
  CHECK(cumprod(tensor({2, -3, 4}), 0).dtype() == kI64);
  CHECK(cumprod(tensor({true, false, true}), 0).to_vector<int>() == std::vector<int>{1, 0, 0});
  CHECK(cumprod(tensor(3), 0).item<int>() == 3);
  CHECK(cumprod(tensor(3), 0).dtype() == kI64);
  CHECK_THROWS_AS(cumprod(zeros({2}), 1), IndexError);
}

TEST_CASE("cumprod: a GPU agrees with the CPU") {
  manual_seed(25);
  const Tensor x = rand({3, 37}, {.dtype = kF64}) + 0.5;
  for (const Device device : devices()) {
    CHECK(difference(cumprod(x.to(device), 1).cpu(), cumprod(x, 1), 1e-12) == "");
  }
}

TEST_CASE("cumprod: gradients agree with finite differences, twice, also at zeros") {
  manual_seed(24);
  check_gradients({"cumprod", [](const Tensors& in) { return cumprod(in[0], 1); }, {f64({2, 5})}});
  const Tensor with_zeros = f64({3, 4}) * tensor({1.0, 0.0, 1.0, 0.0}, kF64);
  check_gradients(
      {"cumprod of zeros", [](const Tensors& in) { return cumprod(in[0], 1); }, {with_zeros}});
}
