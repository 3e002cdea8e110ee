// CUDA kernels of ops/binary.h: core/gpu/pointwise.cuh with the arithmetic of binary_math.h, which
// the CPU loop uses too.
#include "lathe/core/gpu/pointwise.cuh"
#include "lathe/ops/binary.h"
#include "lathe/ops/binary_math.h"

namespace lathe::cuda {

namespace {

template <class Out, class T, class F>
void run(const Tensor& out, const Tensor& a, const Tensor& b, F f) {
  pointwise<Out>(out, Rounded<Out, F>{f}, Input<T>{a}, Input<T>{b});
}

template <class F>
void number_op(const char* name, const Tensor& out, const Tensor& a, const Tensor& b, F f) {
  visit_number(a.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    run<T, T>(out, a, b, f);
  });
}

template <class F>
void float_op(const char* name, const Tensor& out, const Tensor& a, const Tensor& b, F f) {
  visit_float(a.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    run<T, T>(out, a, b, f);
  });
}

template <class F>
void compare_op(const Tensor& out, const Tensor& a, const Tensor& b, F f) {
  visit_all(a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    run<bool, T>(out, a, b, f);
  });
}

}  // namespace

void binary(BinaryOp op, const Tensor& out, const Tensor& a, const Tensor& b) {
  switch (op) {
    case BinaryOp::kAdd: return number_op("add", out, a, b, math::Add{});
    case BinaryOp::kSub: return number_op("sub", out, a, b, math::Sub{});
    case BinaryOp::kMul: return number_op("mul", out, a, b, math::Mul{});
    case BinaryOp::kDiv: return float_op("div", out, a, b, math::Div{});
    case BinaryOp::kDivTrunc: return number_op("div", out, a, b, math::DivTrunc{});
    case BinaryOp::kDivFloor: return number_op("div", out, a, b, math::DivFloor{});
    case BinaryOp::kMaximum: return number_op("maximum", out, a, b, math::Maximum{});
    case BinaryOp::kMinimum: return number_op("minimum", out, a, b, math::Minimum{});
    case BinaryOp::kPow: return number_op("pow", out, a, b, math::Pow{});
    case BinaryOp::kReluGrad: return float_op("relu_grad", out, a, b, math::ReluGrad{});
    case BinaryOp::kTanhGrad: return float_op("tanh_grad", out, a, b, math::TanhGrad{});
    case BinaryOp::kSigmoidGrad: return float_op("sigmoid_grad", out, a, b, math::SigmoidGrad{});
    case BinaryOp::kGeluGrad: return float_op("gelu_grad", out, a, b, math::GeluGrad{});
    case BinaryOp::kGeluTanhGrad:
      return float_op("gelu_tanh_grad", out, a, b, math::GeluTanhGrad{});
    case BinaryOp::kEq: return compare_op(out, a, b, math::Eq{});
    case BinaryOp::kNe: return compare_op(out, a, b, math::Ne{});
    case BinaryOp::kLt: return compare_op(out, a, b, math::Lt{});
    case BinaryOp::kLe: return compare_op(out, a, b, math::Le{});
    case BinaryOp::kGt: return compare_op(out, a, b, math::Gt{});
    case BinaryOp::kGe: return compare_op(out, a, b, math::Ge{});
    case BinaryOp::kLogicalAnd: return compare_op(out, a, b, math::And{});
    case BinaryOp::kLogicalOr: return compare_op(out, a, b, math::Or{});
    case BinaryOp::kLogicalXor: return compare_op(out, a, b, math::Xor{});
  }
}

}  // namespace lathe::cuda
