// The arithmetic of ops/unary.h, shared by the CPU loop and the CUDA kernel: one functor per op,
// and visit_unary(), the table of all ops. T is a compute type (float, double or an integer), never
// a half type.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lathe/core/config.h"
#include "lathe/core/scalar.h"
#include "lathe/core/visit.h"
#include "lathe/ops/elementwise_kernels/binary_math.h"
#include "lathe/ops/unary.h"

namespace lathe::math {

// clang-format off
struct Neg        { template <class T> LATHE_HD T operator()(T x) const { return static_cast<T>(-wrapping(x)); } };
struct Square     { template <class T> LATHE_HD T operator()(T x) const { return static_cast<T>(wrapping(x) * wrapping(x)); } };
struct Abs        { template <class T> LATHE_HD T operator()(T x) const {
  if constexpr (std::is_unsigned_v<T>) return x;
  else if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
  else return x < T(0) ? Neg{}(x) : x; } };
struct Sign       { template <class T> LATHE_HD T operator()(T x) const {
  if constexpr (std::is_unsigned_v<T>) return x > T(0) ? T(1) : x;
  else return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0); } };
struct Floor      { template <class T> LATHE_HD T operator()(T x) const { return std::floor(x); } };
struct Ceil       { template <class T> LATHE_HD T operator()(T x) const { return std::ceil(x); } };
struct Round      { template <class T> LATHE_HD T operator()(T x) const { return std::nearbyint(x); } };
struct Trunc      { template <class T> LATHE_HD T operator()(T x) const { return std::trunc(x); } };
struct Exp        { template <class T> LATHE_HD T operator()(T x) const { return fast_exp(x); } };
struct Expm1      { template <class T> LATHE_HD T operator()(T x) const { return std::expm1(x); } };
struct Log        { template <class T> LATHE_HD T operator()(T x) const { return std::log(x); } };
struct Log1p      { template <class T> LATHE_HD T operator()(T x) const { return std::log1p(x); } };
struct Log2       { template <class T> LATHE_HD T operator()(T x) const { return std::log2(x); } };
struct Log10      { template <class T> LATHE_HD T operator()(T x) const { return std::log10(x); } };
struct Exp2       { template <class T> LATHE_HD T operator()(T x) const { return std::exp2(x); } };
struct Sqrt       { template <class T> LATHE_HD T operator()(T x) const { return std::sqrt(x); } };
struct Rsqrt      { template <class T> LATHE_HD T operator()(T x) const { return T(1) / std::sqrt(x); } };
struct Reciprocal { template <class T> LATHE_HD T operator()(T x) const { return T(1) / x; } };
struct Sin        { template <class T> LATHE_HD T operator()(T x) const { return std::sin(x); } };
struct Cos        { template <class T> LATHE_HD T operator()(T x) const { return std::cos(x); } };
struct Tan        { template <class T> LATHE_HD T operator()(T x) const { return std::tan(x); } };
struct Asin       { template <class T> LATHE_HD T operator()(T x) const { return std::asin(x); } };
struct Acos       { template <class T> LATHE_HD T operator()(T x) const { return std::acos(x); } };
struct Atan       { template <class T> LATHE_HD T operator()(T x) const { return std::atan(x); } };
struct Sinh       { template <class T> LATHE_HD T operator()(T x) const { return std::sinh(x); } };
struct Cosh       { template <class T> LATHE_HD T operator()(T x) const { return std::cosh(x); } };
struct Asinh      { template <class T> LATHE_HD T operator()(T x) const { return std::asinh(x); } };
struct Acosh      { template <class T> LATHE_HD T operator()(T x) const { return std::acosh(x); } };
struct Atanh      { template <class T> LATHE_HD T operator()(T x) const { return std::atanh(x); } };
struct Tanh       { template <class T> LATHE_HD T operator()(T x) const { return fast_tanh(x); } };
struct Erf        { template <class T> LATHE_HD T operator()(T x) const { return fast_erf(x); } };
struct IsNan      { template <class T> LATHE_HD bool operator()(T x) const { return x != x; } };
struct IsInf      { template <class T> LATHE_HD bool operator()(T x) const { return x == x && x - x != x - x; } };
struct IsFinite   { template <class T> LATHE_HD bool operator()(T x) const { return x - x == x - x; } };

// Written as `x < 0 ? 0 : x` so that NaN passes through and a loss scaler still sees it.
struct Relu       { template <class T> LATHE_HD T operator()(T x) const {
  if constexpr (std::is_unsigned_v<T>) return x;
  else return x < T(0) ? T(0) : x; } };
// exp's argument is never positive: no overflow on either side, and no branch.
struct Sigmoid    { template <class T> LATHE_HD T operator()(T x) const {
  const T e = fast_exp(x < T(0) ? x : -x);  // at most 1
  return (x < T(0) ? e : T(1)) / (T(1) + e); } };
struct Silu       { template <class T> LATHE_HD T operator()(T x) const { return x * Sigmoid{}(x); } };
struct Gelu       { template <class T> LATHE_HD T operator()(T x) const { return x * normal_at(x).cdf; } };
// (1 + tanh u) / 2 is sigmoid(2 u).
struct GeluTanh   { template <class T> LATHE_HD T operator()(T x) const {
  return x * Sigmoid{}(T(1.59576912160573071176) * (x + T(0.044715) * x * x * x)); } };
// clang-format on

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

/// A NaN stays; an end that is NaN makes everything NaN. `|` instead of `||` avoids branches.
template <class T>
struct Clamp {
  T low, high;
  LATHE_HD T operator()(T x) const {
    const T raised = ((x < low) | is_nan(low)) ? low : x;
    return ((raised > high) | is_nan(high)) ? high : raised;
  }
};

template <class T>
struct LeakyRelu {
  T slope;
  LATHE_HD T operator()(T x) const { return x > T(0) ? x : slope * x; }
};

template <class T>
struct Elu {
  T alpha;
  LATHE_HD T operator()(T x) const { return x > T(0) ? x : alpha * std::expm1(x); }
};

template <class T>
struct Softplus {
  T beta, threshold;
  LATHE_HD T operator()(T x) const {
    const T scaled = beta * x;
    return scaled > threshold ? x : std::log1p(std::exp(scaled)) / beta;
  }
};

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
