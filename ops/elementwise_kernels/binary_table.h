// visit_binary(): from an op of ops/binary.h to its functor in binary_math.h, by dtype.
#pragma once

#include "lathe/core/visit.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/elementwise_kernels/binary_math.h"

namespace lathe::math {

/// Calls run(TypeTag<Out>, TypeTag<T>, f) for operands of `dtype`: f is the op's functor, T the
/// operands' type and Out the result's.
/// throws: DTypeError if the op does not take `dtype`.
template <class Run>
void visit_binary(BinaryOp op, DType dtype, const Run& run) {
  const auto numbers = [&](const char* name, auto f) {
    visit_number(dtype, name, [&](auto type) { run(type, type, f); });
  };
  const auto floats = [&](const char* name, auto f) {
    visit_float(dtype, name, [&](auto type) { run(type, type, f); });
  };
  const auto test = [&](auto f) {
    visit_all(dtype, [&](auto type) { run(TypeTag<bool>{}, type, f); });
  };
  switch (op) {
    case BinaryOp::kAdd: return numbers("add", Add{});
    case BinaryOp::kSub: return numbers("sub", Sub{});
    case BinaryOp::kMul: return numbers("mul", Mul{});
    case BinaryOp::kDiv: return floats("div", Div{});
    case BinaryOp::kDivTrunc: return numbers("div", DivTrunc{});
    case BinaryOp::kDivFloor: return numbers("div", DivFloor{});
    case BinaryOp::kMaximum: return numbers("maximum", Maximum{});
    case BinaryOp::kMinimum: return numbers("minimum", Minimum{});
    case BinaryOp::kPow: return numbers("pow", Pow{});
    case BinaryOp::kHypot: return floats("hypot", Hypot{});
    case BinaryOp::kFmod: return numbers("fmod", Fmod{});
    case BinaryOp::kRemainder: return numbers("remainder", Remainder{});
    case BinaryOp::kAtan2: return floats("atan2", Atan2{});
    case BinaryOp::kReluGrad: return floats("relu_grad", ReluGrad{});
    case BinaryOp::kTanhGrad: return floats("tanh_grad", TanhGrad{});
    case BinaryOp::kSigmoidGrad: return floats("sigmoid_grad", SigmoidGrad{});
    case BinaryOp::kGeluGrad: return floats("gelu_grad", GeluGrad{});
    case BinaryOp::kGeluTanhGrad: return floats("gelu_tanh_grad", GeluTanhGrad{});
    case BinaryOp::kEq: return test(Eq{});
    case BinaryOp::kNe: return test(Ne{});
    case BinaryOp::kLt: return test(Lt{});
    case BinaryOp::kLe: return test(Le{});
    case BinaryOp::kGt: return test(Gt{});
    case BinaryOp::kGe: return test(Ge{});
    case BinaryOp::kLogicalAnd: return test(And{});
    case BinaryOp::kLogicalOr: return test(Or{});
    case BinaryOp::kLogicalXor: return test(Xor{});
  }
}

}  // namespace lathe::math
