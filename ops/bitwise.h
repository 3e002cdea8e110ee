// Operations on the bits of integers, element by element, with broadcasting and PyTorch's type
// promotion. On bool they are the logical operations. bitwise.cpp: checks;
// elementwise_kernels/bitwise_cpu.cpp, bitwise_cuda.cu: kernels; bitwise_math.h: the arithmetic.
//   a, b   any shapes that broadcast   →   the broadcast shape, in the promoted dtype
// A number raises only the category of the dtype: i8 with 3 is i8, bool with 3 is i64. A number
// beyond the range of the dtype wraps.
// dtypes: integers and bool; of a shift at least one operand is an integer.
// grad: none.   amp: none.
// throws: DTypeError, ShapeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

// clang-format off
LATHE_API Tensor bitwise_and(const Tensor& a, const Tensor& b);  // a & b
LATHE_API Tensor bitwise_and(const Tensor& a, Scalar b);
LATHE_API Tensor bitwise_or(const Tensor& a, const Tensor& b);   // a | b
LATHE_API Tensor bitwise_or(const Tensor& a, Scalar b);
LATHE_API Tensor bitwise_xor(const Tensor& a, const Tensor& b);  // a ^ b
LATHE_API Tensor bitwise_xor(const Tensor& a, Scalar b);
LATHE_API Tensor bitwise_not(const Tensor& a);                   // ~a
// The bits of a, moved by b places to the left (right). A right shift of a signed dtype repeats the
// sign. A shift by a negative number, or by the number of bits or more, leaves nothing: 0, and -1
// for a negative a moved to the right.
LATHE_API Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);  // a << b
LATHE_API Tensor bitwise_left_shift(const Tensor& a, Scalar b);
LATHE_API Tensor bitwise_left_shift(Scalar a, const Tensor& b);
LATHE_API Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);  // a >> b
LATHE_API Tensor bitwise_right_shift(const Tensor& a, Scalar b);
LATHE_API Tensor bitwise_right_shift(Scalar a, const Tensor& b);

// binary.h declares the operators &, | and ^ of two tensors, and ~.
inline Tensor operator&(const Tensor& a, Scalar b) { return bitwise_and(a, b); }
inline Tensor operator&(Scalar a, const Tensor& b) { return bitwise_and(b, a); }
inline Tensor operator|(const Tensor& a, Scalar b) { return bitwise_or(a, b); }
inline Tensor operator|(Scalar a, const Tensor& b) { return bitwise_or(b, a); }
inline Tensor operator^(const Tensor& a, Scalar b) { return bitwise_xor(a, b); }
inline Tensor operator^(Scalar a, const Tensor& b) { return bitwise_xor(b, a); }
inline Tensor operator<<(const Tensor& a, const Tensor& b) { return bitwise_left_shift(a, b); }
inline Tensor operator<<(const Tensor& a, Scalar b) { return bitwise_left_shift(a, b); }
inline Tensor operator<<(Scalar a, const Tensor& b) { return bitwise_left_shift(a, b); }
inline Tensor operator>>(const Tensor& a, const Tensor& b) { return bitwise_right_shift(a, b); }
inline Tensor operator>>(const Tensor& a, Scalar b) { return bitwise_right_shift(a, b); }
inline Tensor operator>>(Scalar a, const Tensor& b) { return bitwise_right_shift(a, b); }
// clang-format on

enum class BitOp : uint8_t { kAnd, kOr, kXor, kLeftShift, kRightShift };

namespace cpu {
/// out = op(a, b), all of one integer dtype. A 0-d CPU tensor may be on another device than out.
void bitwise(BitOp op, const Tensor& out, const Tensor& a, const Tensor& b);
}  // namespace cpu
namespace cuda {
void bitwise(BitOp op, const Tensor& out, const Tensor& a, const Tensor& b);
}  // namespace cuda

}  // namespace lathe
