// Between the ops of linalg.h and their kernels. Contract: linalg_batch.h.
#include "lathe/ops/linalg/linalg_batch.h"

#include "lathe/autograd/grad_mode.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe::linalg {

void check_matrices(const char* op, const Tensor& a) {
  LATHE_CHECK(DTypeError, a.dtype() == kF32 || a.dtype() == kF64, op,
              ": expected f32 or f64 (a: ", a, ")");
  LATHE_CHECK(ShapeError, a.ndim() >= 2, op, ": expected matrices, […,m,n] (a: ", a, ")");
}

void check_square(const char* op, const Tensor& a) {
  check_matrices(op, a);
  LATHE_CHECK(ShapeError, a.dim(-2) == a.dim(-1), op, ": expected square matrices, got ", a.dim(-2),
              " by ", a.dim(-1), " (a: ", a, ")");
}

void check_finite(const char* op, const Tensor& a) {
  check_matrices(op, a);
  LATHE_CHECK(ValueError, all(isfinite(a.detach())).item<bool>(), op,
              ": expected finite elements (a: ", a, ")");
}

static Shape with_leading(Shape leading, const Shape& matrix) {
  leading.push_back(matrix[matrix.size() - 2]);
  leading.push_back(matrix.back());
  return leading;
}

static Shape leading_of(const Tensor& a) {
  Shape shape = a.shape();
  shape.erase(shape.size() - 1);
  shape.erase(shape.size() - 1);
  return shape;
}

std::pair<Tensor, Tensor> same_batch(const char* op, const Tensor& a, const Tensor& b) {
  check_matrices(op, a);
  LATHE_CHECK(DTypeError, a.dtype() == b.dtype(), op, ": a and b must have one dtype (a: ", a,
              ", b: ", b, ")");
  LATHE_CHECK(DeviceError, a.device() == b.device(), op, ": a and b must be on one device (a: ", a,
              ", b: ", b, ")");
  LATHE_CHECK(ShapeError, b.ndim() >= 2, op, ": expected matrices, […,m,k] (b: ", b, ")");
  const Shape leading = broadcast_shapes(op, leading_of(a), leading_of(b));
  return {expand(a, with_leading(leading, a.shape())), expand(b, with_leading(leading, b.shape()))};
}

Tensor to_kernel(const Tensor& a) {
  const NoGrad off;
  const int64_t m = a.dim(-2), n = a.dim(-1), count = numel_of(leading_of(a));
  const Tensor there = contiguous(cast(to_device(a.detach(), kCPU), kF64));
  return reshape(there, {count, m, n});
}

Tensor from_kernel(const Tensor& y, const Tensor& a) {
  const NoGrad off;
  Shape shape = leading_of(a);
  for (int i = 1; i < y.ndim(); ++i) shape.push_back(y.shape()[i]);
  return to_device(cast(reshape(y, shape), a.dtype()), a.device());
}

Tensor result_for(const Tensor& a, const Shape& sizes) {
  Shape shape{a.dim(0)};
  for (const int64_t size : sizes) shape.push_back(size);
  return zeros(shape, {.dtype = kF64});
}

Tensor transposed(const Tensor& a) { return transpose(a, -2, -1); }

std::string name_of(const Tensor& a, int64_t matrix) {
  return a.ndim() == 2 ? "the matrix" : concat("matrix ", matrix, " of the batch");
}

}  // namespace lathe::linalg
