// Operations on bits: checks. They have no gradients. Contract: bitwise.h.
#include "lathe/ops/bitwise.h"

#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary_acts.h"
#include "lathe/ops/promote.h"

namespace lathe {

namespace {

void check_bits_dtype(const char* name, BitOp op, DType dtype, const Tensor& a, const Tensor& b) {
  const bool shifts = op == BitOp::kLeftShift || op == BitOp::kRightShift;
  LATHE_CHECK(DTypeError, is_integer(dtype) || (dtype == kBool && !shifts), name,
              shifts ? ": expected integers (a: " : ": expected integers or bool (a: ", a,
              ", b: ", b, ")");
}

Tensor of_bits(const char* name, BitOp op, const Tensor& a_in, const Tensor& b_in) {
  const profile::OpRange range(name, {a_in, b_in});
  check_bits_dtype(name, op, result_dtype(a_in, b_in), a_in, b_in);
  const auto operands = binary::prepare(name, a_in, b_in);
  const Tensor &a = operands.a, &b = operands.b;
  if (a.dtype() == kBool) {
    if (op == BitOp::kAnd) return logical_and(a, b);
    return op == BitOp::kOr ? logical_or(a, b) : logical_xor(a, b);
  }
  Tensor y = binary::result_for(name, a, b, a.dtype());
  LATHE_DISPATCH(y.device(), bitwise(op, y, a, b));
  profile::note_output(y);
  return y;
}

}  // namespace

// clang-format off
Tensor bitwise_and(const Tensor& a, const Tensor& b) { return of_bits("bitwise_and", BitOp::kAnd, a, b); }
Tensor bitwise_or(const Tensor& a, const Tensor& b) { return of_bits("bitwise_or", BitOp::kOr, a, b); }
Tensor bitwise_xor(const Tensor& a, const Tensor& b) { return of_bits("bitwise_xor", BitOp::kXor, a, b); }
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b) { return of_bits("bitwise_left_shift", BitOp::kLeftShift, a, b); }
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b) { return of_bits("bitwise_right_shift", BitOp::kRightShift, a, b); }
Tensor bitwise_and(const Tensor& a, Scalar b) { return bitwise_and(a, scalar_like(b, a)); }
Tensor bitwise_or(const Tensor& a, Scalar b) { return bitwise_or(a, scalar_like(b, a)); }
Tensor bitwise_xor(const Tensor& a, Scalar b) { return bitwise_xor(a, scalar_like(b, a)); }
Tensor bitwise_left_shift(const Tensor& a, Scalar b) { return bitwise_left_shift(a, scalar_like(b, a)); }
Tensor bitwise_left_shift(Scalar a, const Tensor& b) { return bitwise_left_shift(scalar_like(a, b), b); }
Tensor bitwise_right_shift(const Tensor& a, Scalar b) { return bitwise_right_shift(a, scalar_like(b, a)); }
Tensor bitwise_right_shift(Scalar a, const Tensor& b) { return bitwise_right_shift(scalar_like(a, b), b); }

Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
Tensor operator~(const Tensor& a) { return bitwise_not(a); }
// clang-format on

Tensor bitwise_not(const Tensor& a) {
  const profile::OpRange range("bitwise_not", {a});
  LATHE_CHECK(DTypeError, !is_floating(a.dtype()), "bitwise_not: expected integers or bool (a: ", a,
              ")");
  return a.dtype() == kBool ? logical_not(a) : bitwise_xor(a, -1);
}

}  // namespace lathe
