// copy_values() between orders of memory: transpositions by tiles, and reversed rows.
#include "lathe/core/copy.h"

#include <doctest/doctest.h>

#include "lathe/core/thread_pool.h"
#include "lathe/lathe.h"

using namespace lathe;

namespace {

/// Elements 0, 1, 2, … in an integer dtype or modulo 97 in it.
Tensor numbered(const Shape& shape, DType dtype) {
  const Tensor n = arange(numel_of(shape), {.dtype = kI64});
  return reshape(cast(remainder(n, 97), dtype), shape);
}

/// The same elements one by one, by their positions.
std::vector<double> in_order(const Tensor& x) {
  const std::vector<double> stored = alias(x, {x.numel()}, {1}, 0).to_vector<double>();
  std::vector<double> result;
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t rest = i, at = x.offset();
    for (int d = x.ndim() - 1; d >= 0; --d) {
      at += rest % x.shape()[d] * x.strides()[d];
      rest /= x.shape()[d];
    }
    result.push_back(stored[static_cast<size_t>(at)]);
  }
  return result;
}

}  // namespace

TEST_CASE("copy_values: transposed elements of every size, in every order of dimensions") {
  const struct {
    Shape shape;
    std::vector<Dims> orders;
  } cases[] = {
      {{33, 65}, {{1, 0}}},
      {{64, 128}, {{1, 0}}},
      {{8, 200}, {{1, 0}}},
      {{15, 97}, {{1, 0}}},
      {{17, 79}, {{1, 0}}},
      {{5, 17, 40}, {{2, 1, 0}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}, {1, 0, 2}}},
      {{3, 9, 11, 18}, {{0, 2, 3, 1}, {0, 3, 1, 2}, {3, 2, 1, 0}}},
  };
  const int before = num_threads();
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    for (const auto& c : cases) {
      for (const DType dtype : {kU8, kBool, kF16, kF32, kI64, kF64}) {
        const Tensor x = numbered(c.shape, dtype);
        for (const Dims& order : c.orders) {
          CAPTURE(concat(x, " in order ", order));
          const Tensor view = permute(x, order);
          const Tensor y = empty(view.shape(), {.dtype = dtype});
          copy_values(y, view);
          CHECK(y.to_vector<double>() == in_order(view));
        }
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("copy_values: rows of 1 to 5 elements, each from another row or the same one") {
  const int before = num_threads();
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    for (const int64_t n : {1, 7, 31, 64, 1031, 40009}) {
      for (const int64_t k : {1, 2, 3, 4, 5}) {
        for (const DType dtype : {kU8, kF16, kF32, kF64}) {
          CAPTURE(concat(n, " rows of ", k, " in ", dtype));
          const Tensor x = numbered({2, k, n}, dtype);
          for (const Tensor& view : {permute(x, {0, 2, 1}), permute(x, {2, 0, 1}),
                                     alias(x, {2, n, k}, {k * n, 1, -n}, (k - 1) * n),
                                     expand(unsqueeze(select(x, 1, 0), 2), {2, n, k})}) {
            const Tensor y = empty(view.shape(), {.dtype = dtype});
            copy_values(y, view);
            REQUIRE(y.to_vector<double>() == in_order(view));
          }
        }
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("copy_values: negative strides read backwards") {
  for (const DType dtype : {kU8, kF16, kF32, kF64}) {
    const Tensor x = numbered({7, 45}, dtype);
    const Tensor rows = alias(x, x.shape(), {45, -1}, 44), y = empty(x.shape(), {.dtype = dtype});
    copy_values(y, rows);
    const std::vector<double> from = x.to_vector<double>(), got = y.to_vector<double>();
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == from[i / 45 * 45 + 44 - i % 45]);
  }
}
