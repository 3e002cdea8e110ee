// Elementwise ops of two operands, with broadcasting and PyTorch's type promotion. binary.cpp:
// checks and gradients; elementwise_kernels/: arithmetic and kernels.
//   a, b   any shapes that broadcast   →   the broadcast shape
// A Scalar can raise only the category of the dtype (f16 tensor + 1.0 → f16). A Scalar beyond the
// range of an integer dtype wraps, except in div.
// a and b must be on one device; a 0-d CPU tensor goes with any device.
// amp: none, except for pow; mixed dtypes are promoted to the wider.
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
LATHE_API Tensor add(const Tensor& a, const Tensor& b);      // a + b            grad: a, b, twice differentiable
LATHE_API Tensor add(const Tensor& a, Scalar b);
LATHE_API Tensor sub(const Tensor& a, const Tensor& b);      // a - b            grad: a, b, twice differentiable
LATHE_API Tensor sub(const Tensor& a, Scalar b);
LATHE_API Tensor sub(Scalar a, const Tensor& b);
// a ± alpha * b, rounded once.
// grad: a, b, twice differentiable.
// throws: DTypeError if alpha is floating and a and b are integers; ValueError if their integer
// dtype cannot hold alpha.
LATHE_API Tensor add(const Tensor& a, const Tensor& b, Scalar alpha);
LATHE_API Tensor sub(const Tensor& a, const Tensor& b, Scalar alpha);
LATHE_API Tensor mul(const Tensor& a, const Tensor& b);      // a * b            grad: a, b, twice differentiable
LATHE_API Tensor mul(const Tensor& a, Scalar b);
LATHE_API Tensor div(const Tensor& a, const Tensor& b);      // a / b; integers → default dtype   grad: a, b, twice differentiable
LATHE_API Tensor div(const Tensor& a, Scalar b);
LATHE_API Tensor div(Scalar a, const Tensor& b);
// The larger (smaller) of a and b, element by element; NaN if either is NaN.
// grad: a, b, twice differentiable. If both are equal, each gets half; if one is NaN, each gets the
// whole.
LATHE_API Tensor maximum(const Tensor& a, const Tensor& b);
LATHE_API Tensor minimum(const Tensor& a, const Tensor& b);
inline Tensor max(const Tensor& a, const Tensor& b) { return maximum(a, b); }
inline Tensor min(const Tensor& a, const Tensor& b) { return minimum(a, b); }
LATHE_API Tensor pow(const Tensor& a, const Tensor& b);      // a ** b           grad: a, b, twice differentiable; amp: float
LATHE_API Tensor pow(const Tensor& a, Scalar b);             // x^0 has gradient 0, also at 0; throws: ValueError for integers and b < 0
LATHE_API Tensor pow(Scalar a, const Tensor& b);
// sqrt(a^2 + b^2) of floats; the squares do not overflow. If one operand is infinite, the result
// is +inf, even if the other is NaN.
// grad: a, b, twice differentiable: NaN where both are 0, and for an infinite operand.
// throws: DTypeError for integers and bool.
LATHE_API Tensor hypot(const Tensor& a, const Tensor& b);

// clang-format on
enum class RoundingMode : uint8_t { kNone, kTrunc, kFloor };  // of a quotient: none, toward 0, down
struct DivOptions {
  RoundingMode rounding_mode = RoundingMode::kNone;
};
/// a / b, rounded as options.rounding_mode says. kFloor is Python's a // b. With kTrunc or kFloor,
/// integers give an integer result, which wraps on overflow.
/// grad: a, b, twice differentiable; 0 with kTrunc and kFloor.
/// throws: DTypeError for bool with kTrunc and kFloor; on a CPU, ValueError for an integer divided
/// by 0. On a GPU the quotient of such a division is 0, and the next call that waits for the device
/// throws an IndexError with the divisor's position.
LATHE_API Tensor div(const Tensor& a, const Tensor& b, DivOptions options);
LATHE_API Tensor div(const Tensor& a, Scalar b, DivOptions options);
LATHE_API Tensor div(Scalar a, const Tensor& b, DivOptions options);

/// The remainder of a / b. fmod is the C function: its result has a's sign. remainder is Python's
/// a % b: its result has b's sign. Floats give NaN if b = 0 or a is infinite.
/// grad: a, b, twice differentiable.
/// throws: DTypeError for bool; ValueError for an integer divided by 0 (on a GPU as in div with
/// kFloor).
LATHE_API Tensor fmod(const Tensor& a, const Tensor& b);
LATHE_API Tensor fmod(const Tensor& a, Scalar b);
LATHE_API Tensor remainder(const Tensor& a, const Tensor& b);
LATHE_API Tensor remainder(const Tensor& a, Scalar b);
LATHE_API Tensor remainder(Scalar a, const Tensor& b);

/// The angle between the x-axis and the point (x = b, y = a), in [-pi, pi]; integers → default
/// dtype.
/// grad: a, b, twice differentiable; NaN at (0, 0).
LATHE_API Tensor atan2(const Tensor& a, const Tensor& b);

/// a + weight * (b - a): exactly a for weight 0, exactly b for weight 1.
/// dtypes: floats.   grad: a, b, weight, twice differentiable.
LATHE_API Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
LATHE_API Tensor lerp(const Tensor& a, const Tensor& b, double weight);
// clang-format off

// Comparisons, → bool. A comparison with NaN is false, except ne, which is true.
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

// relu_grad(), tanh_grad(), sigmoid_grad(), gelu_grad() and gelu_tanh_grad() compute dx from dy in
// one kernel, for an activation y = f(x). The backward passes of the activations call them.
// grad: dy, and y or x, twice differentiable.
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
inline Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
inline Tensor operator%(const Tensor& a, Scalar b) { return remainder(a, b); }
inline Tensor operator%(Scalar a, const Tensor& b) { return remainder(a, b); }

// Comparisons return a tensor of bool. For one truth value use allclose(a, b), equal(a, b) or
// a.is_same(b).
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

// Of integers the operations on bits: see bitwise.h, which has the forms with numbers, << and >>.
// Of bool tensors, and ! of all: the logical operations, element by element.
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
