// Acts 1 to 3 of the elementwise ops of two operands, for the files that hold these ops:
// binary.cpp, binary_compare.cpp, binary_grad.cpp, bitwise.cpp.
#pragma once

#include "lathe/ops/binary.h"

namespace lathe::binary {

struct Operands {
  Tensor a, b;
};

/// Acts 1 and 2: both operands, checked and cast to the dtype of the computation.
Operands prepare(const char* op, const Tensor& a, const Tensor& b, bool floating = false);

/// The result, not yet computed. If the operand that has the result's shape is NHWC, so is the
/// result.
Tensor result_for(const char* name, const Tensor& a, const Tensor& b, DType dtype);

/// Act 3, with result_for().
Tensor run(const char* name, BinaryOp op, const Tensor& a, const Tensor& b, DType dtype);

}  // namespace lathe::binary
