// The arithmetic of ops/binary.h, used by the CPU loop and by the CUDA kernels: one functor per op.
// binary_table.h is the table of all ops. This file is also compiled at run time, for fused kernels
// (graph/fused/kernel_text.h): it includes nothing that needs a host.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "lathe/core/config.h"
#include "lathe/ops/exp_math.h"

namespace lathe::math {

template <class T>
LATHE_HD inline bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return x != x;
  return false;
}

/// Integers as u64, because unsigned overflow wraps and signed is undefined; floats as they are.
template <class T>
LATHE_HD inline auto wrapping(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return x;
  else
    return static_cast<uint64_t>(x);
}

// clang-format off
struct Add { template <class T> LATHE_HD T operator()(T a, T b) const { return static_cast<T>(wrapping(a) + wrapping(b)); } };
struct Sub { template <class T> LATHE_HD T operator()(T a, T b) const { return static_cast<T>(wrapping(a) - wrapping(b)); } };
struct Mul { template <class T> LATHE_HD T operator()(T a, T b) const { return static_cast<T>(wrapping(a) * wrapping(b)); } };
struct Div { template <class T> LATHE_HD T operator()(T a, T b) const { return a / b; } };
// Rounded quotients of integers: a division by 0 gives 0, and lowest / -1, which overflows, wraps.
struct DivTrunc { template <class T> LATHE_HD T operator()(T a, T b) const {
  if constexpr (std::is_floating_point_v<T>) return std::trunc(a / b);
  else {
    if (b == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>) { if (b == T(-1)) return static_cast<T>(-wrapping(a)); }
    return static_cast<T>(a / b); } } };
struct DivFloor { template <class T> LATHE_HD T operator()(T a, T b) const {
  if constexpr (std::is_floating_point_v<T>) {
    if (b == T(0)) return a / b;
    // Computed from the exact remainder, because a / b may round up to the next integer.
    const T rest = std::fmod(a, b), whole = (a - rest) / b;
    const T down = rest != T(0) && (b < T(0)) != (rest < T(0)) ? whole - T(1) : whole;
    if (down == T(0)) return std::copysign(T(0), a / b);
    const T floor = std::floor(down);
    return down - floor > T(0.5) ? floor + T(1) : floor;
  } else {
    const T quotient = DivTrunc{}(a, b);
    if constexpr (std::is_signed_v<T>) {
      if (b != T(0) && b != T(-1) && a % b != T(0) && (a < T(0)) != (b < T(0))) return static_cast<T>(quotient - T(1));
    }
    return quotient; } } };
// An integer's remainder by 0 is 0, and that by -1, which overflows for the lowest number, too.
struct Fmod { template <class T> LATHE_HD T operator()(T a, T b) const {
  if constexpr (std::is_floating_point_v<T>) return std::fmod(a, b);
  else {
    if (b == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>) { if (b == T(-1)) return T(0); }
    return static_cast<T>(a % b); } } };
struct Remainder { template <class T> LATHE_HD T operator()(T a, T b) const {
  const T rest = Fmod{}(a, b);
  if constexpr (std::is_unsigned_v<T>) return rest;
  else return rest != T(0) && (rest < T(0)) != (b < T(0)) ? static_cast<T>(rest + b) : rest; } };
struct Atan2 { template <class T> LATHE_HD T operator()(T a, T b) const { return std::atan2(a, b); } };
// NaN wins. A comparison with NaN is false, so `a` is tested for NaN; a NaN in b then wins by
// itself.
struct Maximum { template <class T> LATHE_HD T operator()(T a, T b) const { return is_nan(a) || a > b ? a : b; } };
struct Minimum { template <class T> LATHE_HD T operator()(T a, T b) const { return is_nan(a) || a < b ? a : b; } };
struct Hypot { template <class T> LATHE_HD T operator()(T a, T b) const { return std::hypot(a, b); } };
// Backward rules that are worth a pass of their own. The second operand is the op's output, or its
// input for gelu. Where it is NaN, relu passes dy on.
struct ReluGrad    { template <class T> LATHE_HD T operator()(T dy, T y) const { return y <= T(0) ? T(0) : dy; } };
struct TanhGrad    { template <class T> LATHE_HD T operator()(T dy, T y) const { return dy * (T(1) - y * y); } };
struct SigmoidGrad { template <class T> LATHE_HD T operator()(T dy, T y) const { return dy * y * (T(1) - y); } };
// Phi(x) + x phi(x); Phi and phi are the normal distribution and its density.
struct GeluGrad { template <class T> LATHE_HD T operator()(T dy, T x) const {
  const auto [cdf, bell] = normal_at(x);
  return dy * (cdf + x * (T(0.39894228040143267794) * bell)); } };
// With u = 2 k (x + c x^3), of which gelu takes s = sigmoid(u): s + x u' s (1 - s), where
// s (1 - s) = e / (1 + e)^2 for e = e^-|u|. Where e is 0, u' may be infinite.
struct GeluTanhGrad { template <class T> LATHE_HD T operator()(T dy, T x) const {
  const T k = T(1.59576912160573071176), c = T(0.044715), u = k * (x + c * x * x * x);
  const T e = fast_exp(u < T(0) ? u : -u), share = T(1) / (T(1) + e);
  const T bend = x * (k * (T(1) + T(3) * c * x * x)) * (e * share * share);
  return dy * ((u < T(0) ? e * share : share) + (e == T(0) ? T(0) : bend)); } };

struct Eq { template <class T> LATHE_HD bool operator()(T a, T b) const { return a == b; } };
struct Ne { template <class T> LATHE_HD bool operator()(T a, T b) const { return a != b; } };
struct Lt { template <class T> LATHE_HD bool operator()(T a, T b) const { return a < b; } };
struct Le { template <class T> LATHE_HD bool operator()(T a, T b) const { return a <= b; } };
struct Gt { template <class T> LATHE_HD bool operator()(T a, T b) const { return a > b; } };
struct Ge { template <class T> LATHE_HD bool operator()(T a, T b) const { return a >= b; } };
// Without a branch, so that the loops become vector code.
struct And { template <class T> LATHE_HD bool operator()(T a, T b) const { return (a != T(0)) & (b != T(0)); } };
struct Or  { template <class T> LATHE_HD bool operator()(T a, T b) const { return (a != T(0)) | (b != T(0)); } };
struct Xor { template <class T> LATHE_HD bool operator()(T a, T b) const { return (a != T(0)) != (b != T(0)); } };
// clang-format on

/// a ** b. Integers wrap as in multiplication. A negative integer exponent gives the power's value
/// truncated to an integer: 1 or -1 for a = ±1, else 0. Squares and cubes are products, as
/// in PyTorch.
struct Pow {
  template <class T>
  LATHE_HD T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (b == T(2)) return a * a;
      if (b == T(3)) return a * a * a;
      return std::pow(a, b);
    } else {
      if constexpr (std::is_signed_v<T>) {
        if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 == 0 ? T(1) : T(-1)) : T(0);
      }
      uint64_t result = 1, base = static_cast<uint64_t>(a);
      for (uint64_t n = static_cast<uint64_t>(b); n != 0; n >>= 1) {
        if (n & 1) result *= base;
        base *= base;
      }
      return static_cast<T>(result);
    }
  }
};

}  // namespace lathe::math
