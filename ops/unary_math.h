// The arithmetic of ops/unary.h, one functor per op, shared by the CPU loop and the CUDA kernel. T
// is a compute type (float, double or an integer), never a half type.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lathe/core/config.h"
#include "lathe/core/scalar.h"
#include "lathe/ops/binary_math.h"

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
struct Exp        { template <class T> LATHE_HD T operator()(T x) const { return std::exp(x); } };
struct Expm1      { template <class T> LATHE_HD T operator()(T x) const { return std::expm1(x); } };
struct Log        { template <class T> LATHE_HD T operator()(T x) const { return std::log(x); } };
struct Log1p      { template <class T> LATHE_HD T operator()(T x) const { return std::log1p(x); } };
struct Log2       { template <class T> LATHE_HD T operator()(T x) const { return std::log2(x); } };
struct Sqrt       { template <class T> LATHE_HD T operator()(T x) const { return std::sqrt(x); } };
struct Rsqrt      { template <class T> LATHE_HD T operator()(T x) const { return T(1) / std::sqrt(x); } };
struct Reciprocal { template <class T> LATHE_HD T operator()(T x) const { return T(1) / x; } };
struct Sin        { template <class T> LATHE_HD T operator()(T x) const { return std::sin(x); } };
struct Cos        { template <class T> LATHE_HD T operator()(T x) const { return std::cos(x); } };
struct Tanh       { template <class T> LATHE_HD T operator()(T x) const { return std::tanh(x); } };
struct Erf        { template <class T> LATHE_HD T operator()(T x) const { return std::erf(x); } };
struct IsNan      { template <class T> LATHE_HD bool operator()(T x) const { return x != x; } };
struct IsInf      { template <class T> LATHE_HD bool operator()(T x) const { return x == x && x - x != x - x; } };
struct IsFinite   { template <class T> LATHE_HD bool operator()(T x) const { return x - x == x - x; } };

// Written as `x < 0 ? 0 : x` so that NaN passes through and a loss scaler still sees it.
struct Relu       { template <class T> LATHE_HD T operator()(T x) const {
  if constexpr (std::is_unsigned_v<T>) return x;
  else return x < T(0) ? T(0) : x; } };
// Each branch keeps exp's argument negative: no overflow on either side.
struct Sigmoid    { template <class T> LATHE_HD T operator()(T x) const {
  if (x >= T(0)) return T(1) / (T(1) + std::exp(-x));
  const T e = std::exp(x);
  return e / (T(1) + e); } };
struct Silu       { template <class T> LATHE_HD T operator()(T x) const { return x * Sigmoid{}(x); } };
struct Gelu       { template <class T> LATHE_HD T operator()(T x) const {
  return T(0.5) * x * (T(1) + std::erf(x * T(0.70710678118654752440))); } };
struct GeluTanh   { template <class T> LATHE_HD T operator()(T x) const {
  return T(0.5) * x * (T(1) + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x))); } };
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

}  // namespace lathe::math
