// tril and triu.
#include "lathe/ops/triangle.h"

#include "compare.h"
#include "lathe/core/thread_pool.h"

using namespace lathe;
using namespace lathe::test;

TEST_CASE("tril, triu: keep one side of a diagonal") {
  const Tensor x = arange(1, 13).view({3, 4});
  CHECK(difference(tril(x), {1, 0, 0, 0, 5, 6, 0, 0, 9, 10, 11, 0}, 0) == "");
  CHECK(difference(tril(x, 1), {1, 2, 0, 0, 5, 6, 7, 0, 9, 10, 11, 12}, 0) == "");
  CHECK(difference(triu(x), {1, 2, 3, 4, 0, 6, 7, 8, 0, 0, 11, 12}, 0) == "");
  CHECK(difference(triu(x, -1), {1, 2, 3, 4, 5, 6, 7, 8, 0, 10, 11, 12}, 0) == "");
  CHECK(difference(triu(x.t(), 1), {0, 5, 9, 0, 0, 10, 0, 0, 0, 0, 0, 0}, 0) == "");
  CHECK(difference(tril(x, -9), std::vector<double>(12, 0), 0) == "");
  CHECK(tril(x).dtype() == kI64);
  CHECK(tril(cast(x, kBool)).dtype() == kBool);
  CHECK(tril(zeros({2, 0, 3})).shape() == Shape{2, 0, 3});
  CHECK(difference(tril(full({1, 2, 2}, std::nan(""))),
                   {std::nan(""), 0, std::nan(""), std::nan("")}, 0) == "");
  CHECK_THROWS_WITH_AS(tril(zeros({3})),
                       doctest::Contains("tril: x must have 2 or more dimensions"), ShapeError);
}

TEST_CASE("tril, triu: every diagonal of batches, on any number of threads") {
  const int before = num_threads();
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    for (const Shape& shape : {Shape{2, 5, 7}, Shape{2, 7, 5}, Shape{3, 131, 129}}) {
      const int64_t rows = shape[1], columns = shape[2];
      const Tensor x = arange(1, numel_of(shape) + 1).view(shape);
      for (const int64_t d :
           {INT64_MIN, -rows, 1 - rows, int64_t{-2}, int64_t{1}, columns - 1, columns, INT64_MAX}) {
        CAPTURE(concat(shape, ", diagonal ", d));
        std::vector<double> lower, upper;
        for (int64_t i = 0; i < x.numel(); ++i) {
          const int64_t apart = i % columns - i / columns % rows;
          lower.push_back(apart <= d ? static_cast<double>(i + 1) : 0.0);
          upper.push_back(apart >= d ? static_cast<double>(i + 1) : 0.0);
        }
        CHECK(difference(tril(x, d), lower, 0) == "");
        CHECK(difference(triu(x, d), upper, 0) == "");
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("tril, triu: gradients agree with finite differences, twice") {
  check_gradients({"tril", [](const Tensors& in) { return tril(in[0], -1); }, {f64({2, 3, 4})}});
  check_gradients({"triu", [](const Tensors& in) { return triu(in[0], 1); }, {f64({3, 4})}});
}
