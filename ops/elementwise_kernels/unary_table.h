// visit_unary(): from an op of ops/unary.h to its functor in unary_math.h, by dtype and parameters.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "lathe/core/scalar.h"
#include "lathe/core/visit.h"
#include "lathe/ops/elementwise_kernels/unary_math.h"
#include "lathe/ops/unary.h"

namespace lathe::math {

/// An end of clamp's interval in C. An end beyond C's range becomes the end of that range.
template <class C>
C clamp_end(Scalar end) {
  if constexpr (std::is_floating_point_v<C>) {
    return end.to<C>();
  } else {
    using Limits = std::numeric_limits<C>;
    const auto limited = [](auto value) {
      if (value <= static_cast<decltype(value)>(Limits::min())) return Limits::min();
      if (value >= static_cast<decltype(value)>(Limits::max())) return Limits::max();
      return static_cast<C>(value);
    };
    return end.is_floating() ? limited(end.to<double>()) : limited(end.to<int64_t>());
  }
}

/// visit_unary() for the ops with parameters.
template <class Run>
void visit_parametric(UnaryOp op, DType dtype, UnaryParams p, const Run& run) {
  // make(C{}) is the functor for the compute type C.
  const auto floats = [&](const char* name, auto make) {
    visit_float(dtype, name,
                [&]<class T>(TypeTag<T> type) { run(type, type, make(ComputeType<T>{})); });
  };
  switch (op) {
    case UnaryOp::kLeakyRelu:
      return floats("leaky_relu", [&]<class C>(C) { return LeakyRelu<C>{p.a.to<C>()}; });
    case UnaryOp::kElu: return floats("elu", [&]<class C>(C) { return Elu<C>{p.a.to<C>()}; });
    case UnaryOp::kSoftplus:
      return floats("softplus", [&]<class C>(C) { return Softplus<C>{p.a.to<C>(), p.b.to<C>()}; });
    default:  // clamp
      visit_number(dtype, "clamp", [&]<class T>(TypeTag<T> type) {
        using C = ComputeType<T>;
        run(type, type, Clamp<C>{clamp_end<C>(p.a), clamp_end<C>(p.b)});
      });
  }
}

/// Calls run(TypeTag<Out>, TypeTag<T>, f) for x of `dtype`: f is the op's functor, T is x's type,
/// Out the result's.
/// throws: DTypeError if the op does not take `dtype`.
template <class Run>
void visit_unary(UnaryOp op, DType dtype, UnaryParams p, const Run& run) {
  const auto numbers = [&](const char* name, auto f) {
    visit_number(dtype, name, [&](auto type) { run(type, type, f); });
  };
  const auto floats = [&](const char* name, auto f) {
    visit_float(dtype, name, [&](auto type) { run(type, type, f); });
  };
  const auto test = [&](const char* name, auto f) {
    visit_float(dtype, name, [&](auto type) { run(TypeTag<bool>{}, type, f); });
  };
  switch (op) {
    case UnaryOp::kNeg: return numbers("neg", Neg{});
    case UnaryOp::kAbs: return numbers("abs", Abs{});
    case UnaryOp::kSign: return numbers("sign", Sign{});
    case UnaryOp::kSquare: return numbers("square", Square{});
    case UnaryOp::kRelu: return numbers("relu", Relu{});
    case UnaryOp::kFloor: return floats("floor", Floor{});
    case UnaryOp::kCeil: return floats("ceil", Ceil{});
    case UnaryOp::kRound: return floats("round", Round{});
    case UnaryOp::kTrunc: return floats("trunc", Trunc{});
    case UnaryOp::kExp: return floats("exp", Exp{});
    case UnaryOp::kExpm1: return floats("expm1", Expm1{});
    case UnaryOp::kLog: return floats("log", Log{});
    case UnaryOp::kLog1p: return floats("log1p", Log1p{});
    case UnaryOp::kLog2: return floats("log2", Log2{});
    case UnaryOp::kLog10: return floats("log10", Log10{});
    case UnaryOp::kExp2: return floats("exp2", Exp2{});
    case UnaryOp::kSqrt: return floats("sqrt", Sqrt{});
    case UnaryOp::kRsqrt: return floats("rsqrt", Rsqrt{});
    case UnaryOp::kReciprocal: return floats("reciprocal", Reciprocal{});
    case UnaryOp::kSin: return floats("sin", Sin{});
    case UnaryOp::kCos: return floats("cos", Cos{});
    case UnaryOp::kTan: return floats("tan", Tan{});
    case UnaryOp::kAsin: return floats("asin", Asin{});
    case UnaryOp::kAcos: return floats("acos", Acos{});
    case UnaryOp::kAtan: return floats("atan", Atan{});
    case UnaryOp::kSinh: return floats("sinh", Sinh{});
    case UnaryOp::kCosh: return floats("cosh", Cosh{});
    case UnaryOp::kAsinh: return floats("asinh", Asinh{});
    case UnaryOp::kAcosh: return floats("acosh", Acosh{});
    case UnaryOp::kAtanh: return floats("atanh", Atanh{});
    case UnaryOp::kTanh: return floats("tanh", Tanh{});
    case UnaryOp::kSigmoid: return floats("sigmoid", Sigmoid{});
    case UnaryOp::kErf: return floats("erf", Erf{});
    case UnaryOp::kGelu: return floats("gelu", Gelu{});
    case UnaryOp::kGeluTanh: return floats("gelu", GeluTanh{});
    case UnaryOp::kSilu: return floats("silu", Silu{});
    case UnaryOp::kIsNan: return test("isnan", IsNan{});
    case UnaryOp::kIsInf: return test("isinf", IsInf{});
    case UnaryOp::kIsFinite: return test("isfinite", IsFinite{});
    case UnaryOp::kClamp:
    case UnaryOp::kLeakyRelu:
    case UnaryOp::kElu:
    case UnaryOp::kSoftplus: return visit_parametric(op, dtype, p, run);
  }
}

}  // namespace lathe::math
