// The kernels of ops/reduce_kernels/cumsum_cuda.cu against the CPU: blocks and columns, whole and in chunks.
#include "lathe/ops/cumsum.h"

#include <doctest/doctest.h>

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

void compare(const Tensor& x, int64_t n, int64_t inner) {
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : kI64;
  const Tensor want = empty(x.shape(), {.dtype = dtype}), device_x = on_device(x);
  const Tensor got = empty_like(device_x, dtype);
  for (const bool reverse : {false, true}) {
    cpu::cumsum(want, x, n, inner, reverse);
    cuda::cumsum(got, device_x, n, inner, reverse);
    const std::string text = difference(on_host(got), want, tolerance_of(dtype));
    CHECK_MESSAGE(text.empty(), concat(x), " inner ", inner, " reverse ", reverse, ": ", text);
  }
}

}  // namespace

TEST_CASE("cumsum kernels: agree with the CPU for every dtype") {
  for (int d = 0; d < kNumDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    compare(cast(is_floating(dtype) ? randn({2, 70}) : randint(0, 2, {2, 70}), dtype), 70, 1);
    compare(cast(is_floating(dtype) ? randn({9, 5}) : randint(0, 2, {9, 5}), dtype), 9, 5);
  }
}

TEST_CASE("cumsum kernels: agree with the CPU for short and long lines, rows and columns") {
  const struct {
    int64_t outer, n, inner;
  } cases[] = {{0, 3, 1},    {1, 1, 1},    {3, 31, 1},   {3, 33, 1},
               {2, 1023, 1}, {2, 1025, 1}, {1, 9001, 1},  // in chunks
               {3, 5, 40},   {1, 200, 3},                 // in chunks
               {2, 129, 2}};
  for (const auto& c : cases) {
    compare(randn({c.outer, c.n, c.inner}), c.n, c.inner);
  }
  compare(randint(-100, 100, {1, 9001, 1}), 9001, 1);
}
