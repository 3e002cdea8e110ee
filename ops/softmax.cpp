// softmax and log_softmax: checks and gradients. Contracts: softmax.h; kernels:
// row_kernels/softmax_cpu.cpp, softmax_cuda.cu.
#include "lathe/ops/softmax.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/lines.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

namespace lathe {

using autograd::Needs;
using autograd::Saved;
using autograd::SavedOutput;

namespace {

Tensor sum_along(const Tensor& x, int dim) {
  return x.ndim() == 0 ? x : sum(x, {dim}, {.keepdim = true});
}

/// dx of softmax from its output; an op of its own, so that it has a gradient too.
Tensor softmax_grad(const Tensor& y, const Tensor& dy, int dim) {
  const Lines lines = lines_of(y.shape(), dim);
  Tensor dx = empty(y.shape(), {.dtype = y.dtype(), .device = y.device()});
  LATHE_DISPATCH(y.device(), softmax_backward(false, dx, contiguous(y.detach()),
                                              contiguous(dy.detach()), lines.n, lines.inner));
  autograd::record("softmax_grad", dx, {y, dy},
                   [y = Saved(y), dy = Saved(dy), dim](const Tensor& v, const Needs& need) {
                     Tensor gy, gdy;
                     const Tensor &p = y.get(), &d = dy.get();
                     if (need[0]) {
                       gy = sub(mul(v, sub(d, sum_along(mul(p, d), dim))),
                                mul(d, sum_along(mul(v, p), dim)));
                     }
                     if (need[1]) gdy = softmax_grad(p, v, dim);
                     return Tensors{gy, gdy};
                   });
  return dx;
}

Tensor log_softmax_grad(const Tensor& y, const Tensor& dy, int dim) {
  const Lines lines = lines_of(y.shape(), dim);
  Tensor dx = empty(y.shape(), {.dtype = y.dtype(), .device = y.device()});
  LATHE_DISPATCH(y.device(), softmax_backward(true, dx, contiguous(y.detach()),
                                              contiguous(dy.detach()), lines.n, lines.inner));
  autograd::record("log_softmax_grad", dx, {y, dy},
                   [y = Saved(y), dy = Saved(dy), dim](const Tensor& v, const Needs& need) {
                     Tensor gy, gdy;
                     const Tensor weighted = mul(v, exp(y.get()));
                     if (need[0]) gy = neg(mul(weighted, sum_along(dy.get(), dim)));
                     if (need[1]) gdy = sub(v, sum_along(weighted, dim));
                     return Tensors{gy, gdy};
                   });
  return dx;
}

/// Acts 2 and 3.
Tensor forward(const char* op, bool log, const Tensor& x, int dim) {
  check_floating(op, x);
  const Lines lines = lines_of(x.shape(), dim);
  Tensor y = empty(x.shape(), {.dtype = x.dtype(), .device = x.device()});
  LATHE_DISPATCH(x.device(), softmax_forward(log, y, contiguous(x.detach()), lines.n, lines.inner));
  return y;
}

}  // namespace

Tensor softmax(const Tensor& x_in, int64_t dim_in) {
  const profile::OpRange range("softmax", {x_in});
  profile::note_arguments(dim_in);
  const Tensor x = amp::cast(amp::kFloat, x_in);
  const int dim = wrap_dim("softmax", dim_in, x.ndim());
  Tensor y = forward("softmax", false, x, dim);
  autograd::record("softmax", y, {x}, [y = SavedOutput(y), dim](const Tensor& dy, const Needs&) {
    return Tensors{softmax_grad(y.get(), dy, dim)};
  });
  return y;
}

Tensor log_softmax(const Tensor& x_in, int64_t dim_in) {
  const profile::OpRange range("log_softmax", {x_in});
  profile::note_arguments(dim_in);
  const Tensor x = amp::cast(amp::kFloat, x_in);
  const int dim = wrap_dim("log_softmax", dim_in, x.ndim());
  Tensor y = forward("log_softmax", true, x, dim);
  autograd::record("log_softmax", y, {x},
                   [y = SavedOutput(y), dim](const Tensor& dy, const Needs&) {
                     return Tensors{log_softmax_grad(y.get(), dy, dim)};
                   });
  return y;
}

}  // namespace lathe
