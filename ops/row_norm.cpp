// Normalisation of rows: gradient. Contract: row_norm.h; kernels: row_kernels/row_norm_cpu.cpp,
// row_norm_cuda.cu.
#include "lathe/ops/row_norm.h"

#include "lathe/autograd/record.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;
using autograd::Saved;

namespace {

/// A weight or bias as the kernels want it.
Tensor plain(const Tensor& t, DType dtype) {
  return t.defined() ? contiguous(cast(t.detach(), dtype)) : Tensor();
}

struct Gradients {
  Tensor dx, dweight, dbias;  // dweight and dbias flat, in the compute dtype
};

/// One pass over dy and x.
Gradients fused(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                const Tensor& weight, const RowNormShape& shape, bool want_weight, bool want_bias) {
  const int64_t parts = ceil_div(shape.rows(), kRowNormPart);
  const Shape partial{parts, shape.groups * shape.channels};
  const TensorOptions options{.dtype = mean.dtype(), .device = x.device()};
  Gradients g{empty(x.shape(), {.dtype = x.dtype(), .device = x.device()}), {}, {}};
  if (want_weight) g.dweight = empty(partial, options);
  if (want_bias) g.dbias = empty(partial, options);
  LATHE_DISPATCH(x.device(),
                 row_norm_backward(g.dx, g.dweight, g.dbias, contiguous(dy), contiguous(x), mean,
                                   rstd, plain(weight, mean.dtype()), shape));
  if (want_weight) g.dweight = sum(g.dweight, {0});
  if (want_bias) g.dbias = sum(g.dbias, {0});
  return g;
}

/// The same in ops, for gradients that are differentiated again.
Gradients composed(const Tensor& dy_in, const Tensor& x_in, const Tensor& weight,
                   const RowNormShape& s, double eps) {
  const DType dtype = compute_dtype(x_in.dtype());
  const Shape blocks{s.samples, s.groups, s.channels, s.inner};
  const auto row_mean = [](const Tensor& t) { return mean(t, {2, 3}, {.keepdim = true}); };
  const Tensor x = reshape(cast(x_in, dtype), blocks), dy = reshape(cast(dy_in, dtype), blocks);
  const Tensor centred = sub(x, row_mean(x));
  const Tensor rstd = rsqrt(add(row_mean(square(centred)), eps)), xhat = mul(centred, rstd);
  const Tensor g =
      weight.defined() ? mul(dy, reshape(cast(weight, dtype), {s.groups, s.channels, 1})) : dy;
  const Tensor dx = mul(rstd, sub(sub(g, row_mean(g)), mul(xhat, row_mean(mul(g, xhat)))));
  return {cast(reshape(dx, x_in.shape()), x_in.dtype()), flatten(sum(mul(dy, xhat), {0, 3})),
          flatten(sum(dy, {0, 3}))};
}

Tensor as(const Tensor& gradient, const Tensor& of) {
  return cast(reshape(gradient, of.shape()), of.dtype());
}

}  // namespace

Tensor row_norm(const char* op, const Tensor& x, const RowNormShape& shape, const Tensor& weight,
                const Tensor& bias, double eps) {
  const DType dtype = compute_dtype(x.dtype());
  const TensorOptions options{.dtype = dtype, .device = x.device()};
  Tensor y = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  const Tensor mean = empty({shape.rows()}, options), rstd = empty({shape.rows()}, options);
  LATHE_DISPATCH(x.device(),
                 row_norm_forward(y, mean, rstd, contiguous(x.detach()), plain(weight, dtype),
                                  plain(bias, dtype), shape, eps));
  autograd::record(op, y, {x, weight, bias},
                   [x = Saved(x), weight = Saved(weight), bias, mean, rstd, shape, eps](
                       const Tensor& dy, const Needs& need) {
                     const Gradients g = grad_enabled()
                                             ? composed(dy, x.get(), weight.get(), shape, eps)
                                             : fused(dy, x.get(), mean, rstd, weight.get(), shape,
                                                     need[1], need[2]);
                     return Tensors{g.dx, need[1] ? as(g.dweight, weight.get()) : Tensor(),
                                    need[2] ? as(g.dbias, bias) : Tensor()};
                   });
  return y;
}

}  // namespace lathe
