// The gradients of activations as ops, so that they have gradients themselves. Contracts: binary.h.
#include <numbers>

#include "lathe/autograd/record.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary_acts.h"
#include "lathe/ops/unary.h"

namespace lathe {

using autograd::record;
using autograd::Saved;
using binary::run;

namespace {

using BinaryFunction = Tensor (*)(const Tensor&, const Tensor&);

/// dx = dy f'(x) of an op f, in one pass. `self` is this function; curvature(x) is f''(x) in ops.
template <class F>
Tensor slope_op(const char* name, BinaryOp op, const Tensor& dy, const Tensor& x,
                BinaryFunction self, F curvature) {
  Tensor dx = run(name, op, dy, x, dy.dtype());
  record(name, dx, {dy, x},
         [dy = Saved(dy), x = Saved(x), self, curvature](const Tensor& g,
                                                         const autograd::Needs& need) {
           Tensor ddy, d_x;
           if (need[0]) ddy = self(g, x.get());
           if (need[1]) d_x = mul(mul(g, dy.get()), curvature(x.get()));
           return Tensors{ddy, d_x};
         });
  return dx;
}

}  // namespace

Tensor relu_grad(const Tensor& dy, const Tensor& y) {
  const profile::OpRange range("relu_grad", {dy, y});
  Tensor dx = run("relu_grad", BinaryOp::kReluGrad, dy, y, dy.dtype());
  record("relu_grad", dx, {dy}, [y = Saved(y)](const Tensor& g, const autograd::Needs&) {
    return Tensors{relu_grad(g, y.get())};
  });
  return dx;
}

Tensor tanh_grad(const Tensor& dy, const Tensor& y) {
  const profile::OpRange range("tanh_grad", {dy, y});
  Tensor dx = run("tanh_grad", BinaryOp::kTanhGrad, dy, y, dy.dtype());
  record("tanh_grad", dx, {dy, y},
         [dy = Saved(dy), y = Saved(y)](const Tensor& g, const autograd::Needs& need) {
           Tensor ddy, d_y;
           if (need[0]) ddy = tanh_grad(g, y.get());
           if (need[1]) d_y = mul(mul(mul(g, dy.get()), y.get()), -2);
           return Tensors{ddy, d_y};
         });
  return dx;
}

Tensor sigmoid_grad(const Tensor& dy, const Tensor& y) {
  const profile::OpRange range("sigmoid_grad", {dy, y});
  Tensor dx = run("sigmoid_grad", BinaryOp::kSigmoidGrad, dy, y, dy.dtype());
  record("sigmoid_grad", dx, {dy, y},
         [dy = Saved(dy), y = Saved(y)](const Tensor& g, const autograd::Needs& need) {
           Tensor ddy, d_y;
           if (need[0]) ddy = sigmoid_grad(g, y.get());
           if (need[1]) d_y = mul(mul(g, dy.get()), sub(1, mul(y.get(), 2)));
           return Tensors{ddy, d_y};
         });
  return dx;
}

Tensor gelu_grad(const Tensor& dy, const Tensor& x) {
  const profile::OpRange range("gelu_grad", {dy, x});
  // phi(x) (2 - x^2)
  const auto curvature = [](const Tensor& v) {
    const Tensor v2 = square(v);
    const Tensor density = mul(exp(mul(v2, -0.5)), std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return mul(density, sub(2, v2));
  };
  return slope_op("gelu_grad", BinaryOp::kGeluGrad, dy, x, gelu_grad, curvature);
}

Tensor gelu_tanh_grad(const Tensor& dy, const Tensor& x) {
  const profile::OpRange range("gelu_tanh_grad", {dy, x});
  // (1 - t^2) (u' + x (u'' / 2 - t u'^2)), where t = tanh(u) and u = k (x + c x^3)
  const auto curvature = [](const Tensor& v) {
    constexpr double k = 0.79788456080286535588, c = 0.044715;  // k = sqrt(2/pi)
    const Tensor v2 = square(v);
    const Tensor t = tanh(mul(mul(v, add(mul(v2, c), 1)), k));
    const Tensor du = mul(add(mul(v2, 3 * c), 1), k);
    const Tensor bend = mul(v, sub(mul(v, 3 * c * k), mul(t, square(du))));
    return mul(sub(1, square(t)), add(du, bend));
  };
  return slope_op("gelu_tanh_grad", BinaryOp::kGeluTanhGrad, dy, x, gelu_tanh_grad, curvature);
}

}  // namespace lathe
