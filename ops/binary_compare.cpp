// Comparisons and logic: results of bool, without gradients. Contracts: binary.h.
#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary_acts.h"
#include "lathe/ops/promote.h"

namespace lathe {

namespace {

Tensor compare(const char* name, BinaryOp op, const Tensor& a, const Tensor& b) {
  const profile::OpRange range(name, {a, b});
  const auto [x, y] = binary::prepare(name, a, b);
  Tensor result = binary::run(name, op, x, y, kBool);
  profile::note_output(result);
  return result;
}

}  // namespace

// clang-format off
Tensor eq(const Tensor& a, const Tensor& b) { return compare("eq", BinaryOp::kEq, a, b); }
Tensor ne(const Tensor& a, const Tensor& b) { return compare("ne", BinaryOp::kNe, a, b); }
Tensor lt(const Tensor& a, const Tensor& b) { return compare("lt", BinaryOp::kLt, a, b); }
Tensor le(const Tensor& a, const Tensor& b) { return compare("le", BinaryOp::kLe, a, b); }
Tensor gt(const Tensor& a, const Tensor& b) { return compare("gt", BinaryOp::kGt, a, b); }
Tensor ge(const Tensor& a, const Tensor& b) { return compare("ge", BinaryOp::kGe, a, b); }
Tensor eq(const Tensor& a, Scalar b) { return eq(a, scalar_like(b, a)); }
Tensor ne(const Tensor& a, Scalar b) { return ne(a, scalar_like(b, a)); }
Tensor lt(const Tensor& a, Scalar b) { return lt(a, scalar_like(b, a)); }
Tensor le(const Tensor& a, Scalar b) { return le(a, scalar_like(b, a)); }
Tensor gt(const Tensor& a, Scalar b) { return gt(a, scalar_like(b, a)); }
Tensor ge(const Tensor& a, Scalar b) { return ge(a, scalar_like(b, a)); }
Tensor logical_and(const Tensor& a, const Tensor& b) { return compare("logical_and", BinaryOp::kLogicalAnd, a, b); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return compare("logical_or", BinaryOp::kLogicalOr, a, b); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return compare("logical_xor", BinaryOp::kLogicalXor, a, b); }
Tensor logical_not(const Tensor& a) {
  const profile::OpRange range("logical_not", {a});
  return eq(a, 0);
}
// clang-format on

}  // namespace lathe
