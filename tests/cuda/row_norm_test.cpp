// The kernels of ops/row_kernels/row_norm_cuda.cu against the CPU ones.
#include "lathe/ops/row_norm.h"

#include <doctest/doctest.h>

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const RowNormShape kShapes[] = {
    {33, 1, 10, 1},   // layer norm: a few threads per row
    {70, 1, 31, 1},   // several parts
    {3, 1, 1025, 1},  // a block per row
    {5, 2, 3, 7},     // group norm
    {3, 5, 4, 33},    // parts that begin inside a sample
    {2, 40, 1, 5},    // more groups than rows in a part: instance norm
    {1, 1, 4, 300},  {1, 1, 1, 1}, {0, 1, 3, 1}, {3, 1, 2, 0},
};

Tensor moved(const Tensor& t) { return t.defined() ? on_device(t) : t; }

void check(const char* what, const Tensor& got, const Tensor& want, double tol) {
  if (!want.defined()) return;
  const std::string wrong = difference(on_host(got), want, tol);
  CHECK_MESSAGE(wrong.empty(), what, ": ", wrong);
}

void compare(const RowNormShape& s, DType dtype, bool affine, double offset = 0) {
  const DType wide = dtype == kF64 ? kF64 : kF32;
  const Shape shape{s.samples, s.groups, s.channels, s.inner};
  const int64_t columns = s.groups * s.channels;
  const int64_t parts = (s.rows() + kRowNormPart - 1) / kRowNormPart;
  const Tensor x = cast(randn(shape) + offset, dtype), dy = cast(randn(shape), dtype);
  Tensor weight, bias;
  if (affine) {
    weight = cast(rand({columns}) + 0.5, wide);
    bias = cast(randn({columns}), wide);
  }
  struct Results {
    Tensor y, mean, rstd, dx, dweight, dbias;
  };
  const auto results_on = [&](Device device) {
    const TensorOptions own{.dtype = dtype, .device = device};
    const TensorOptions results{.dtype = wide, .device = device};
    Results r{empty(shape, own),
              empty({s.rows()}, results),
              empty({s.rows()}, results),
              empty(shape, own),
              {},
              {}};
    if (affine) r.dweight = empty({parts, columns}, results);
    if (affine) r.dbias = empty({parts, columns}, results);
    return r;
  };
  const Tensor device_x = moved(x);
  const Results want = results_on(kCPU), got = results_on(device_x.device());
  cpu::row_norm_forward(want.y, want.mean, want.rstd, x, weight, bias, s, 1e-5);
  cuda::row_norm_forward(got.y, got.mean, got.rstd, device_x, moved(weight), moved(bias), s, 1e-5);
  cpu::row_norm_backward(want.dx, want.dweight, want.dbias, dy, x, want.mean, want.rstd, weight, s);
  cuda::row_norm_backward(got.dx, got.dweight, got.dbias, moved(dy), device_x, moved(want.mean),
                          moved(want.rstd), moved(weight), s);
  CAPTURE(concat(dtype, shape));
  const double tol = tolerance_of(dtype), wide_tol = tolerance_of(wide);
  if (x.numel() > 0) {
    check("mean", got.mean, want.mean, wide_tol);
    check("rstd", got.rstd, want.rstd, wide_tol);
  }
  check("y", got.y, want.y, tol);
  check("dx", got.dx, want.dx, tol);
  check("dweight", got.dweight, want.dweight, wide_tol);
  check("dbias", got.dbias, want.dbias, wide_tol);
}

}  // namespace

TEST_CASE("row_norm kernels: every shape of layer and group norm") {
  for (const RowNormShape& s : kShapes) compare(s, kF32, true);
}

TEST_CASE("row_norm kernels: every dtype, with and without parameters") {
  for (const DType dtype : {kF16, kBF16, kF32, kF64}) {
    for (const bool affine : {false, true}) {
      compare({5, 1, 40, 1}, dtype, affine);
      compare({3, 2, 4, 6}, dtype, affine);
      compare({2, 3, 72, 1}, dtype, affine);
      compare({2, 2, 3, 24}, dtype, affine);
      compare({2, 1, 2056, 1}, dtype, affine);
    }
  }
}
