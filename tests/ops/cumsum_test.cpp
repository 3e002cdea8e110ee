// Running sums against a plain loop.
#include "lathe/ops/cumsum.h"

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/ops/inplace.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("cumsum: values agree with a plain loop in every layout and dtype") {
  manual_seed(4);
  struct Case {
    Shape x;
    int64_t dim;
  };
  for (const Case& c : {Case{{3, 4}, 0}, Case{{3, 4}, -1}, Case{{2, 5, 100}, 1}, Case{{6}, 0},
                        Case{{}, 0}, Case{{0, 2}, 0}, Case{{2, 0}, 0}, Case{{2, 70000}, 1}}) {
    const Tensor x = randn(c.x, {.dtype = kF64});
    std::vector<double> want = x.to_vector<double>();
    if (x.ndim() > 0 && x.numel() > 0) {
      const int dim = wrap_dim("test", c.dim, x.ndim());
      const auto step = static_cast<size_t>(contiguous_strides(c.x)[dim]);
      const auto n = static_cast<size_t>(c.x[dim]);
      for (size_t i = 0; i < want.size(); ++i) {
        if (i / step % n > 0) want[i] += want[i - step];
      }
    }
    for (const Layout& layout : layouts())
      CHECK(difference(cumsum(layout.apply(x), c.dim), want, 1e-12).empty());
    for (const DType dtype :
         {kF32, kF16, kBF16}) {  // compared with the sums of the rounded numbers
      const Tensor narrow = x.to(dtype);
      CHECK(difference(cumsum(narrow, c.dim), cumsum(narrow.to(kF64), c.dim), tolerance_of(dtype))
                .empty());
    }
  }
  CHECK(cumsum(tensor({1, 2, 3}), 0).to_vector<int64_t>() == std::vector<int64_t>{1, 3, 6});
  CHECK(cumsum(ones({3}, {.dtype = kBool}), 0).dtype() == kI64);
  const Autocast half(kCPU, kF16);
  CHECK(cumsum(zeros({3}, {.dtype = kF16}), 0).dtype() == kF32);
}

TEST_CASE("cumsum: gradients agree with finite differences; errors") {
  for (const int64_t dim : {0, 1, -1}) {
    check_gradients(
        {"cumsum", [dim](const Tensors& in) { return cumsum(in[0], dim); }, {f64({3, 2, 4})}});
  }
  CHECK_THROWS_WITH_AS(cumsum(zeros({2}), 1), doctest::Contains("cumsum: "), IndexError);
}
