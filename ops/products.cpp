// dot, outer and kron, by matmul and mul. Contracts: products.h.
#include "lathe/ops/products.h"

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

}  // namespace lathe
