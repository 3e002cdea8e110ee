// Elementwise ops of two operands, with broadcasting and PyTorch's type promotion. binary.cpp:
// checks and gradients; elementwise_kernels/: arithmetic and kernels.
//   a, b   any shapes that broadcast; a Scalar promotes the category only (f16 tensor + 1.0 → f16)
//   →      the broadcast shape; a Scalar beyond the range of an integer dtype wraps, but for div
// Both are on one device, except that a 0-d CPU tensor goes with any device.
// amp: none but for pow; mixed dtypes go to the wider.
// throws: ShapeError, DTypeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// One name per op; the arithmetic is in elementwise_kernels/binary_math.h, shared by host and
/// device.
enum class BinaryOp : uint8_t {
  // → the promoted dtype
  kAdd,
  kSub,
  kMul,
  kDiv,
  kDivTrunc,
  kDivFloor,
  kMaximum,
  kMinimum,
  kPow,
  kHypot,
  kFmod,
  kRemainder,
  kAtan2,
  // (dy, y) → dx
  kReluGrad,
  kTanhGrad,
  kSigmoidGrad,
  // (dy, x) → dx
  kGeluGrad,
  kGeluTanhGrad,
  // → bool
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor,
};

// clang-format off
LATHE_API Tensor add(const Tensor& a, const Tensor& b);      // a + b            grad: a, b (twice)
LATHE_API Tensor add(const Tensor& a, Scalar b);
LATHE_API Tensor sub(const Tensor& a, const Tensor& b);      // a - b            grad: a, b (twice)
LATHE_API Tensor sub(const Tensor& a, Scalar b);
LATHE_API Tensor sub(Scalar a, const Tensor& b);
// a ± alpha * b, rounded once.
// grad: a, b (twice).   throws: DTypeError or ValueError for an alpha that integers do not hold.
LATHE_API Tensor add(const Tensor& a, const Tensor& b, Scalar alpha);
LATHE_API Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha);
LATHE_API Tensor mul(const Tensor& a, const Tensor& b);      // a * b            grad: a, b (twice)
LATHE_API Tensor mul(const Tensor& a, Scalar b);
LATHE_API Tensor div(const Tensor& a, const Tensor& b);      // a / b; integers → default dtype   grad: a, b (twice)
LATHE_API Tensor div(const Tensor& a, Scalar b);
LATHE_API Tensor div(Scalar a, const Tensor& b);
// The larger or smaller; NaN propagates.
// grad: a, b (twice): half to each of two equals; all of it to both beside a NaN.
LATHE_API Tensor maximum(const Tensor& a, const Tensor& b);
LATHE_API Tensor minimum(const Tensor& a, const Tensor& b);
inline Tensor max(const Tensor& a, const Tensor& b) { return maximum(a, b); }
inline Tensor min(const Tensor& a, const Tensor& b) { return minimum(a, b); }
LATHE_API Tensor pow(const Tensor& a, const Tensor& b);      // a ** b           grad: a, b (twice); amp: float
LATHE_API Tensor pow(const Tensor& a, Scalar b);             // x^0 has gradient 0, also at 0; throws: ValueError for integers and b < 0
LATHE_API Tensor pow(Scalar a, const Tensor& b);
// sqrt(a^2 + b^2) of floats, without overflow on the way. An infinite operand wins, even over NaN.
// grad: a, b (twice): NaN where both are 0, and for an infinite operand.
// throws: DTypeError for integers and bool.
LATHE_API Tensor hypot(const Tensor& a, const Tensor& b);

// clang-format on
enum class RoundingMode : uint8_t { kNone, kTrunc, kFloor };  // of a quotient: none, toward 0, down
struct DivOptions {
  RoundingMode rounding_mode = RoundingMode::kNone;
};
/// a / b, rounded as asked. kFloor is Python's a // b: the remainder a - b * quotient has b's sign.
/// Integers stay integers under kTrunc and kFloor, and wrap. On a GPU an integer divided by 0 gives
/// 0, and the next wait throws an IndexError with the divisor's position.
/// grad: a, b (twice); 0 where the quotient is rounded.
/// throws: DTypeError for bool under kTrunc and kFloor; ValueError for an integer divided by 0.
LATHE_API Tensor div(const Tensor& a, const Tensor& b, DivOptions options);
LATHE_API Tensor div(const Tensor& a, Scalar b, DivOptions options);
LATHE_API Tensor div(Scalar a, const Tensor& b, DivOptions options);

/// What is left of a after b went into it a whole number of times: with a's sign (fmod, the C
/// function) or with b's (remainder, Python's a % b). Floats: NaN for b = 0 or an infinite a.
/// Integers by 0: as the rounded div.
/// grad: a, b (twice).   throws: DTypeError for bool; ValueError for an integer divided by 0.
LATHE_API Tensor fmod(const Tensor& a, const Tensor& b);
LATHE_API Tensor fmod(const Tensor& a, Scalar b);
LATHE_API Tensor remainder(const Tensor& a, const Tensor& b);
LATHE_API Tensor remainder(const Tensor& a, Scalar b);
LATHE_API Tensor remainder(Scalar a, const Tensor& b);

/// The angle of the point (b, a) from the first axis, in [-pi, pi]; integers → default dtype.
/// grad: a, b (twice); NaN at (0, 0).
LATHE_API Tensor atan2(const Tensor& a, const Tensor& b);

/// a + weight * (b - a), computed from b where weight >= 0.5, so that both ends are exact.
/// dtypes: floats.   grad: a, b, weight (twice).
LATHE_API Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
LATHE_API Tensor lerp(const Tensor& a, const Tensor& b, double weight);
// clang-format off

// Comparisons, → bool. With NaN all are false but ne, which is true.
// grad: none.
LATHE_API Tensor eq(const Tensor& a, const Tensor& b);   LATHE_API Tensor eq(const Tensor& a, Scalar b);
LATHE_API Tensor ne(const Tensor& a, const Tensor& b);   LATHE_API Tensor ne(const Tensor& a, Scalar b);
LATHE_API Tensor lt(const Tensor& a, const Tensor& b);   LATHE_API Tensor lt(const Tensor& a, Scalar b);
LATHE_API Tensor le(const Tensor& a, const Tensor& b);   LATHE_API Tensor le(const Tensor& a, Scalar b);
LATHE_API Tensor gt(const Tensor& a, const Tensor& b);   LATHE_API Tensor gt(const Tensor& a, Scalar b);
LATHE_API Tensor ge(const Tensor& a, const Tensor& b);   LATHE_API Tensor ge(const Tensor& a, Scalar b);
LATHE_API Tensor logical_and(const Tensor& a, const Tensor& b);  // of a != 0 and b != 0
LATHE_API Tensor logical_or(const Tensor& a, const Tensor& b);
LATHE_API Tensor logical_xor(const Tensor& a, const Tensor& b);
LATHE_API Tensor logical_not(const Tensor& a);

// The backward passes of relu, tanh, sigmoid and gelu as ops of their own: one pass each.
// grad: dy, and y or x (twice).
LATHE_API Tensor relu_grad(const Tensor& dy, const Tensor& y);     // dy where y > 0 or NaN, else 0
LATHE_API Tensor tanh_grad(const Tensor& dy, const Tensor& y);     // dy (1 - y^2)
LATHE_API Tensor sigmoid_grad(const Tensor& dy, const Tensor& y);  // dy y (1 - y)
LATHE_API Tensor gelu_grad(const Tensor& dy, const Tensor& x);       // dy (Phi(x) + x Phi'(x))
LATHE_API Tensor gelu_tanh_grad(const Tensor& dy, const Tensor& x);  // of its tanh approximation

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator+(const Tensor& a, Scalar b) { return add(a, b); }
inline Tensor operator+(Scalar a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator-(const Tensor& a, Scalar b) { return sub(a, b); }
inline Tensor operator-(Scalar a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator*(const Tensor& a, Scalar b) { return mul(a, b); }
inline Tensor operator*(Scalar a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator/(const Tensor& a, Scalar b) { return div(a, b); }
inline Tensor operator/(Scalar a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& a) { return mul(a, -1); }

// Comparisons give a tensor of bool and not one truth value, which allclose(a, b), equal(a, b) and
// a.is_same(b) give.
inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator==(const Tensor& a, Scalar b) { return eq(a, b); }
inline Tensor operator==(Scalar a, const Tensor& b) { return eq(b, a); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor operator!=(const Tensor& a, Scalar b) { return ne(a, b); }
inline Tensor operator!=(Scalar a, const Tensor& b) { return ne(b, a); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<(const Tensor& a, Scalar b) { return lt(a, b); }
inline Tensor operator<(Scalar a, const Tensor& b) { return gt(b, a); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator<=(const Tensor& a, Scalar b) { return le(a, b); }
inline Tensor operator<=(Scalar a, const Tensor& b) { return ge(b, a); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>(const Tensor& a, Scalar b) { return gt(a, b); }
inline Tensor operator>(Scalar a, const Tensor& b) { return lt(b, a); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor operator>=(const Tensor& a, Scalar b) { return ge(a, b); }
inline Tensor operator>=(Scalar a, const Tensor& b) { return le(b, a); }

// Of tensors of bool, element by element.
// throws: DTypeError for another dtype: integers have no operations on their bits.
LATHE_API Tensor operator&(const Tensor& a, const Tensor& b);
LATHE_API Tensor operator|(const Tensor& a, const Tensor& b);
LATHE_API Tensor operator^(const Tensor& a, const Tensor& b);
LATHE_API Tensor operator~(const Tensor& a);
inline Tensor operator!(const Tensor& a) { return logical_not(a); }
// clang-format on

namespace cpu {
/// out = op(a, b). a and b have one dtype (a 0-d CPU tensor may be on another device than out);
/// out has that dtype or bool.
void binary(BinaryOp op, const Tensor& out, const Tensor& a, const Tensor& b);
}  // namespace cpu
namespace cuda {
void binary(BinaryOp op, const Tensor& out, const Tensor& a, const Tensor& b);
}  // namespace cuda

}  // namespace lathe
