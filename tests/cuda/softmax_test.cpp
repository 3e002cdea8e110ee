// The kernels of ops/row_kernels/softmax_cuda.cu against the CPU op.
#include "lathe/ops/softmax.h"

#include <doctest/doctest.h>

#include <limits>

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

/// x, dy [outer, n, inner].
void compare(const Tensor& x, const Tensor& dy) {
  const int64_t n = x.dim(1), inner = x.dim(2);
  for (const bool log : {false, true}) {
    const Tensor want = empty_like(x), want_dx = empty_like(x);
    cpu::softmax_forward(log, want, x, n, inner);
    cpu::softmax_backward(log, want_dx, want, dy, n, inner);
    const Tensor device_x = on_device(x);
    const Tensor got = empty_like(device_x), got_dx = empty_like(device_x);
    cuda::softmax_forward(log, got, device_x, n, inner);
    cuda::softmax_backward(log, got_dx, on_device(want), on_device(dy), n, inner);
    CAPTURE(concat(x, log ? " log" : ""));
    CHECK(difference(on_host(got), want, tolerance_of(x.dtype())) == "");
    CHECK(difference(on_host(got_dx), want_dx, tolerance_of(x.dtype())) == "");
  }
}

}  // namespace

TEST_CASE("softmax kernels: lines of every length and distance, every dtype") {
  for (const Shape& shape :
       {Shape{1, 1, 1}, Shape{33, 10, 1}, Shape{3, 31, 1}, Shape{2, 1023, 1}, Shape{2, 1025, 1},
        Shape{9, 68, 1}, Shape{3, 1024, 1}, Shape{2, 1028, 1}, Shape{3, 5, 7}, Shape{2, 70, 33},
        Shape{1, 3, 300}, Shape{0, 3, 2}, Shape{3, 0, 2}}) {
    compare(randn(shape) * 5, randn(shape));
  }
  for (const DType dtype : {kF16, kBF16, kF64}) {
    for (const Shape& shape : {Shape{3, 40, 1}, Shape{2, 2056, 1}, Shape{2, 20, 5}}) {
      compare(randn(shape, {.dtype = dtype}), randn(shape, {.dtype = dtype}));
    }
  }
}

TEST_CASE("softmax kernels: far-apart, infinite and NaN scores") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const int64_t n : {3, 40, 1100}) {
    const Tensor x = randn({6, n, 1}) * 1e4;
    x.select(0, 1).fill_(-kInf);
    x.select(0, 2).fill_(kInf);
    x.select(0, 3).select(0, n - 1).fill_(kInf);
    x.select(0, 4).select(0, 1).fill_(-kInf);
    x.select(0, 5).select(0, 2).fill_(std::numeric_limits<double>::quiet_NaN());
    compare(x, randn(x.shape()));
  }
}
