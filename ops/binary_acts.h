// Acts 1 to 3 of the elementwise ops of two operands, for the files that hold these ops:
// binary.cpp, binary_compare.cpp, binary_grad.cpp.
#pragma once

#include "lathe/ops/binary.h"

namespace lathe::binary {

struct Operands {
  Tensor a, b;
};

/// Acts 1 and 2: both operands, checked and cast to the dtype of the computation.
Operands prepare(const char* op, const Tensor& a, const Tensor& b, bool floating = false);

/// Act 3. If the operand that has the result's shape is NHWC, so is the result.
Tensor run(const char* name, BinaryOp op, const Tensor& a, const Tensor& b, DType dtype);

}  // namespace lathe::binary
