// The kernels of ops/reduce_kernels/argmax_cuda.cu against the CPU op: values and places, equal to the last bit.
#include "lathe/ops/argmax.h"

#include <doctest/doctest.h>

#include <limits>

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

/// x [outer, n, inner].
void compare(const Tensor& x, bool with_values = true) {
  const int64_t outer = x.dim(0), n = x.dim(1), inner = x.dim(2);
  const Tensor device_x = on_device(x);
  const Device device = device_x.device();
  for (const bool largest : {true, false}) {
    Tensor want, got;
    if (with_values) {
      want = empty({outer, inner}, {.dtype = x.dtype()});
      got = empty({outer, inner}, {.dtype = x.dtype(), .device = device});
    }
    const Tensor want_at = empty({outer, inner}, {.dtype = kI64});
    const Tensor got_at = empty({outer, inner}, {.dtype = kI64, .device = device});
    cpu::extreme(largest, want, want_at, x, n, inner);
    cuda::extreme(largest, got, got_at, device_x, n, inner);
    CAPTURE(concat(x, largest ? " max" : " min"));
    CHECK(difference(on_host(got_at), want_at, 0) == "");
    if (with_values) CHECK(difference(on_host(got), want, 0) == "");
  }
}

}  // namespace

TEST_CASE("argmax kernels: lines of every length and distance, with many equal elements") {
  for (const Shape& shape :
       {Shape{1, 1, 1}, Shape{3, 31, 1}, Shape{2, 1023, 1}, Shape{2, 1025, 1}, Shape{1, 9001, 1},
        Shape{3, 5, 7}, Shape{2, 70, 33}, Shape{1, 3000, 3}, Shape{40, 3, 1}, Shape{0, 3, 2}}) {
    compare(randn(shape));
    compare(cast(randint(0, 3, shape, {.dtype = kI64}), kF32), false);
  }
}

TEST_CASE("argmax kernels: every dtype") {
  for (const DType dtype : {kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64}) {
    const Tensor x = cast(randint(0, 100, {3, 40, 2}, {.dtype = kI64}), dtype);
    compare(x);
    compare(x.reshape({6, 40, 1}), false);
  }
}

TEST_CASE("argmax kernels: the first NaN is the extreme, infinities are numbers") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const int64_t n : {3, 40, 1100}) {
    const Tensor x = randn({5, n, 1});
    for (const int64_t i : {n - 1, int64_t{1}}) {
      x.select(0, 1).select(0, i).fill_(std::numeric_limits<double>::quiet_NaN());
    }
    x.select(0, 2).fill_(-kInf);
    x.select(0, 3).fill_(kInf);
    x.select(0, 4).fill_(std::numeric_limits<double>::quiet_NaN());
    compare(x);
    compare(x.transpose(0, 2).contiguous());
  }
}
