// Activations by elementwise ops. Contracts: activations.h.
#include "lathe/ops/activations.h"

#include "lathe/autograd/record.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe {

namespace {

/// f(x) in the type that x's arithmetic is done in, rounded once to x's dtype, or for integers to
/// the default dtype.
template <class F>
Tensor widened(const Tensor& x, F f) {
  const DType dtype = is_floating(x.dtype()) ? x.dtype() : default_dtype();
  return cast(f(cast(x, compute_dtype(dtype))), dtype);
}

/// clamp, but with a gradient of 0 at the ends. At NaN the gradient passes or is 0.
Tensor open_clamp(const char* op, const Tensor& x, double low, double high, bool passes_at_nan) {
  const Tensor y = clamp(x.detach(), low, high);
  autograd::record(
      op, y, {x},
      [x = autograd::Saved(x), low, high, passes_at_nan](const Tensor& dy, const autograd::Needs&) {
        const Tensor v = x.get();
        if (passes_at_nan) {
          return Tensors{where(logical_or(le(v, low), ge(v, high)), 0, dy)};
        }
        return Tensors{where(logical_and(gt(v, low), lt(v, high)), dy, 0)};
      });
  return y;
}

}  // namespace

Tensor hardtanh(const Tensor& x, double low, double high) {
  const profile::OpRange range("hardtanh", {x});
  profile::note_arguments(low, high);
  LATHE_CHECK(ValueError, low <= high, "hardtanh: low ", low, " is above high ", high);
  return open_clamp("hardtanh", floating(x), low, high, /*passes_at_nan=*/true);
}
Tensor relu6(const Tensor& x) {
  const profile::OpRange range("relu6", {x});
  return open_clamp("relu6", floating(x), 0, 6, /*passes_at_nan=*/false);
}

Tensor hardsigmoid(const Tensor& x) {
  const profile::OpRange range("hardsigmoid", {x});
  return widened(x, [](const Tensor& v) {
    return div(open_clamp("hardsigmoid", add(v, 3), 0, 6, /*passes_at_nan=*/false), 6);
  });
}

Tensor hardswish(const Tensor& x) {
  const profile::OpRange range("hardswish", {x});
  return widened(x, [](const Tensor& v) {
    const Tensor fixed = v.detach();
    const Tensor y = mul(fixed, div(clamp(add(fixed, 3), 0, 6), 6));
    autograd::record("hardswish", y, {v},
                     [v = autograd::Saved(v)](const Tensor& dy, const autograd::Needs&) {
                       // clamp keeps the slope finite where it is not chosen.
                       const Tensor slope = add(div(clamp(v.get(), -3, 3), 3), 0.5);
                       const Tensor bent = where(lt(v.get(), 3), mul(dy, slope), dy);
                       return Tensors{where(le(v.get(), -3), 0, bent)};
                     });
    return y;
  });
}

Tensor mish(const Tensor& x) {
  const profile::OpRange range("mish", {x});
  return widened(x, [](const Tensor& v) { return mul(v, tanh(softplus(v))); });
}

Tensor selu(const Tensor& x) {
  const profile::OpRange range("selu", {x});
  constexpr double kScale = 1.0507009873554804934193349852946;
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  return widened(x, [](const Tensor& v) { return mul(elu(v, kAlpha), kScale); });
}

Tensor softsign(const Tensor& x) {
  const profile::OpRange range("softsign", {x});
  return widened(x, [](const Tensor& v) { return div(v, add(abs(v), 1)); });
}

Tensor logsigmoid(const Tensor& x) {
  const profile::OpRange range("logsigmoid", {x});
  // Above the threshold softplus equals its argument to all digits of f64.
  return widened(x, [](const Tensor& v) { return neg(softplus(neg(v), {.threshold = 40.0})); });
}

Tensor celu(const Tensor& x, double alpha) {
  const profile::OpRange range("celu", {x});
  LATHE_CHECK(ValueError, alpha != 0, "celu: alpha must not be 0 (x: ", x, ")");
  return widened(x, [alpha](const Tensor& v) {
    const Tensor positive = gt(v.detach(), 0);
    const Tensor below = mul(expm1(div(where(positive, 0, v), alpha)), alpha);
    return where(positive, v, below);
  });
}

Tensor hardshrink(const Tensor& x_in, double lambda) {
  const profile::OpRange range("hardshrink", {x_in});
  const Tensor x = floating(x_in), fixed = x.detach();
  return where(logical_and(ge(fixed, -lambda), le(fixed, lambda)), 0, x);
}

Tensor softshrink(const Tensor& x, double lambda) {
  const profile::OpRange range("softshrink", {x});
  LATHE_CHECK(ValueError, lambda >= 0, "softshrink: lambda must not be negative, got ", lambda,
              " (x: ", x, ")");
  return widened(x, [lambda](const Tensor& v) {
    const Tensor inside = le(abs(v.detach()), lambda);
    return where(inside, 0, sub(v, mul(sign(v.detach()), lambda)));
  });
}

Tensor tanhshrink(const Tensor& x) {
  const profile::OpRange range("tanhshrink", {x});
  return widened(x, [](const Tensor& v) { return sub(v, tanh(v)); });
}

Tensor softmin(const Tensor& x, int64_t dim) {
  const profile::OpRange range("softmin", {x});
  check_floating("softmin", x);
  return softmax(neg(x), dim);
}

Tensor glu(const Tensor& x, int64_t dim_in) {
  const profile::OpRange range("glu", {x});
  profile::note_arguments(dim_in);
  LATHE_CHECK(IndexError, x.ndim() > 0, "glu: a 0-d tensor has no halves (x: ", x, ")");
  const int dim = wrap_dim("glu", dim_in, x.ndim());
  LATHE_CHECK(ShapeError, x.dim(dim) % 2 == 0, "glu: dimension ", dim, " has the odd size ",
              x.dim(dim), " (x: ", x, ")");
  const int64_t half = x.dim(dim) / 2;
  return widened(x, [=](const Tensor& v) {
    return mul(narrow(v, dim, 0, half), sigmoid(narrow(v, dim, half, half)));
  });
}

Tensor prelu(const Tensor& x, const Tensor& weight) {
  const profile::OpRange range("prelu", {x, weight});
  LATHE_CHECK(DTypeError, is_floating(x.dtype()) && is_floating(weight.dtype()),
              "prelu: expected floating dtypes (x: ", x, ", weight: ", weight, ")");
  const int64_t channels = x.ndim() == 0 ? 1 : x.dim(x.ndim() == 1 ? 0 : 1);
  LATHE_CHECK(ShapeError, weight.ndim() <= 1 && (weight.numel() == 1 || weight.numel() == channels),
              "prelu: weight must be [1]",
              channels == 1 ? "" : concat(" or [", channels, "], the channels of x"), " (x: ", x,
              ", weight: ", weight, ")");
  Shape shape = Dims::filled(x.ndim(), 1);
  if (weight.numel() != 1) shape[x.ndim() == 1 ? 0 : 1] = channels;
  const Tensor slope = reshape(weight, shape);
  return where(gt(x.detach(), 0), x, mul(x, slope));
}

}  // namespace lathe
