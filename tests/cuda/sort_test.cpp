// The kernels of ops/index_kernels/sort_cuda.cu against the CPU: the order is total, so there is one right
// answer.
#include "lathe/ops/sort.h"

#include <limits>

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

void compare(const Tensor& x, int64_t n, int64_t k, int64_t inner) {
  const int64_t outer = x.numel() / (n * inner);
  const Shape shape{outer, k, inner};
  const Tensor d_x = on_device(x);
  for (const bool descending : {false, true}) {
    const Tensor values = empty(shape, {.dtype = x.dtype()}),
                 places = empty(shape, {.dtype = kI64});
    const Tensor got = on_device(empty_like(values)), got_places = on_device(empty_like(places));
    cpu::sort(values, places, x, n, k, inner, descending);
    cuda::sort(got, got_places, d_x, n, k, inner, descending);
    const std::string name = concat(x, " n ", n, " k ", k, " inner ", inner, ": ");
    const std::string text = difference(on_host(got_places), places, 0);
    CHECK_MESSAGE(text.empty(), name, text);
    CHECK_MESSAGE(difference(on_host(got), values, 0).empty(), name);
  }
}

}  // namespace

TEST_CASE("sort kernels: equal the CPU for every dtype, many equal elements among them") {
  manual_seed(43);
  for (const DType dtype : {kF32, kF64, kF16, kBF16}) {
    compare(randn({5, 33}, {.dtype = dtype}), 33, 33, 1);
  }
  for (const DType dtype : {kU8, kI8, kI16, kI32, kI64}) {
    compare(randint(0, 7, {4, 33, 2}, {.dtype = dtype}), 33, 33, 2);
  }
  compare(cast(randint(0, 2, {3, 20}, {.dtype = kU8}), kBool), 20, 20, 1);
  Tensor odd = randint(-2, 3, {50}, {.dtype = kF32});
  const double special[] = {std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(), -0.0};
  for (int i = 0; i < 12; ++i) odd[4 * i].fill_(special[i % 4]);
  compare(odd, 50, 50, 1);
}

TEST_CASE("sort kernels: lines that fill a block, share one, or take many tiles") {
  manual_seed(44);
  compare(randn({1, 1}), 1, 1, 1);
  compare(randn({2000, 2}), 2, 1, 1);
  compare(randn({3, 1023}), 1023, 5, 1);
  compare(randn({1, 1024}), 1024, 1024, 1);
  compare(randint(0, 50, {2, 1025}, {.dtype = kI32}), 1025, 1025, 1);
  compare(randint(0, 50, {5200}, {.dtype = kI32}), 5200, 5200, 1);
  compare(randint(0, 50, {1, 3100, 2}, {.dtype = kI32}), 3100, 3100, 2);
  for (const int64_t k : {1, 10, 1024, 1500, 3100}) {
    compare(randint(0, 500, {3100}, {.dtype = kI32}), 3100, k, 1);
  }
}
