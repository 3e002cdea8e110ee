// dot, outer, kron and tensordot, by matmul and mul. Contracts: products.h.
#include "lathe/ops/products.h"

#include <algorithm>

#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/lines.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/views.h"

namespace lathe {

static void check_not_bool(const char* op, const Tensor& a, const Tensor& b) {
  LATHE_CHECK(DTypeError, a.dtype() != kBool || b.dtype() != kBool, op,
              ": not defined for bool (a: ", a, ", b: ", b, ")");
}

Tensor dot(const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range("dot", {a_in, b_in});
  const auto [a, b] = amp::cast(amp::kHalf, a_in, b_in);
  check_operands("dot", OperandDType::kNumber, "a", a, "b", b);
  LATHE_CHECK(ShapeError, a.ndim() == 1 && a.shape() == b.shape(),
              "dot: a and b must be [n], of one length (a: ", a, ", b: ", b, ")");
  return matmul(a, b);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  const profile::OpRange range("outer", {a, b});
  check_not_bool("outer", a, b);
  LATHE_CHECK(ShapeError, a.ndim() == 1 && b.ndim() == 1,
              "outer: a and b must be [n] and [m] (a: ", a, ", b: ", b, ")");
  return mul(unsqueeze(a, 1), b);
}

Tensor kron(const Tensor& a, const Tensor& b) {
  const profile::OpRange range("kron", {a, b});
  check_not_bool("kron", a, b);
  const int ndim = std::max(a.ndim(), b.ndim());
  Shape as = a.shape(), bs = b.shape(), shape;
  while (as.size() < ndim) as.insert(0, 1);
  while (bs.size() < ndim) bs.insert(0, 1);
  Tensor y = mul(reshape(a, {a.numel(), 1}), reshape(b, {1, b.numel()}));
  for (int d = 0; d < ndim; ++d) shape.push_back(as[d] * bs[d]);
  if (y.numel() == 0) return reshape(y, shape);
  // y is [a0,a1,…,b0,b1,…] and must become [a0,b0,a1,b1,…], which may be more dimensions than a
  // tensor can have. So each step brings one b behind its a, with all that is done merged in front.
  int64_t done = 1, a_rest = a.numel(), b_rest = b.numel();
  for (int d = 0; d < ndim; ++d) {
    a_rest /= as[d];
    b_rest /= bs[d];
    y = transpose(reshape(y, {done, as[d], a_rest, bs[d], b_rest}), 2, 3);
    done *= shape[d];
  }
  return reshape(y, shape);
}

/// t as a matrix: the dimensions `front`, then those in `back`.
static Tensor as_matrix(const Tensor& t, const Dims& front, const Dims& back) {
  Dims order = front;
  int64_t rows = 1, columns = 1;
  for (const int64_t d : front) rows *= t.dim(d);
  for (const int64_t d : back) {
    columns *= t.dim(d);
    order.push_back(d);
  }
  return reshape(permute(t, order), {rows, columns});
}

/// The dimensions of t that are not in `dims`.
static Dims other_dims(const Tensor& t, const Dims& dims) {
  Dims others;
  for (int d = 0; d < t.ndim(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) others.push_back(d);
  }
  return others;
}

static Dims checked_dims(const Tensor& t, const Dims& dims) {
  Dims all;
  for (const int64_t d : dims) {
    const int64_t dim = wrap_dim("tensordot", d, t.ndim());
    LATHE_CHECK(IndexError, std::find(all.begin(), all.end(), dim) == all.end(),
                "tensordot: dimension ", d, " is repeated (tensor: ", t, ", dims: ", dims, ")");
    all.push_back(dim);
  }
  return all;
}

Tensor tensordot(const Tensor& a, const Tensor& b, int64_t dims) {
  LATHE_CHECK(ValueError, dims >= 0 && dims <= std::min(a.ndim(), b.ndim()), "tensordot: ", dims,
              " dimensions are not between 0 and those of a and b (a: ", a, ", b: ", b, ")");
  Dims a_dims, b_dims;
  for (int64_t d = 0; d < dims; ++d) {
    a_dims.push_back(a.ndim() - dims + d);
    b_dims.push_back(d);
  }
  return tensordot(a, b, a_dims, b_dims);
}

Tensor tensordot(const Tensor& a_in, const Tensor& b_in, const Dims& a_dims_in,
                 const Dims& b_dims_in) {
  const profile::OpRange range("tensordot", {a_in, b_in});
  const auto [a, b] = amp::cast(amp::kHalf, a_in, b_in);
  check_operands("tensordot", OperandDType::kNumber, "a", a, "b", b);
  const Dims a_dims = checked_dims(a, a_dims_in), b_dims = checked_dims(b, b_dims_in);
  bool fits = a_dims.size() == b_dims.size();
  for (int k = 0; fits && k < a_dims.size(); ++k) fits = a.dim(a_dims[k]) == b.dim(b_dims[k]);
  LATHE_CHECK(ShapeError, fits, "tensordot: the sizes of dimensions ", a_dims_in, " of a and ",
              b_dims_in, " of b differ (a: ", a, ", b: ", b, ")");
  const Dims rows = other_dims(a, a_dims), columns = other_dims(b, b_dims);
  Shape shape;
  for (const int64_t d : rows) shape.push_back(a.dim(d));
  for (const int64_t d : columns) shape.push_back(b.dim(d));
  return reshape(matmul(as_matrix(a, rows, a_dims), as_matrix(b, b_dims, columns)), shape);
}

}  // namespace lathe
