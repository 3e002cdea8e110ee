// The arithmetic of ops/unary.h, shared by the CPU loop and the CUDA kernels: one functor per op.
// T is a compute type (float, double or an integer), never a half type. unary_table.h is the table
// of all ops. This file is also compiled at run time, for fused kernels
// (graph/fused/kernel_text.h): it includes nothing that needs a host.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "lathe/core/config.h"
#include "lathe/ops/elementwise_kernels/binary_math.h"

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
struct Expm1      { template <class T> LATHE_HD T operator()(T x) const { return fast_expm1(x); } };
struct Log        { template <class T> LATHE_HD T operator()(T x) const { return fast_log(x); } };
struct Log1p      { template <class T> LATHE_HD T operator()(T x) const { return fast_log1p(x); } };
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
  LATHE_HD T operator()(T x) const { return x > T(0) ? x : alpha * fast_expm1(x); }
};

/// log(1 + e^s) = max(s, 0) + log(1 + e^-|s|): that exponential is at most 1.
template <class T>
struct Softplus {
  T beta, threshold;
  LATHE_HD T operator()(T x) const {
    const T scaled = beta * x, top = scaled > T(0) ? scaled : T(0);
    const T bent = (top + log1p_of_share(fast_exp(-std::fabs(scaled)))) / beta;
    return scaled > threshold ? x : bent;
  }
};

}  // namespace lathe::math
