// What ops of several operands agree on: their common dtype and device (promote.cpp).
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// PyTorch's rule: tensors with dimensions promote each other; 0-d tensors raise the category only.
LATHE_API DType result_dtype(const Tensor& a, const Tensor& b);

/// A Scalar as a 0-d CPU tensor of a's dtype. If the number's category is higher than a's, the
/// dtype is the default dtype for a floating number, else the number's own.
LATHE_API Tensor scalar_like(Scalar value, const Tensor& a);

/// x; integers and bool in the default dtype, as `/` and most functions of real numbers take them.
LATHE_API Tensor floating(const Tensor& x);

/// throws: ValueError if an integer `dtype` does not hold `value`: it is outside the range or not
/// finite. u8 takes -1 to -255 for 255 to 1, as in PyTorch.
LATHE_API void check_holds(const char* op, DType dtype, Scalar value);

/// throws: DTypeError if the number's category is higher than x's; as check_holds().
LATHE_API void check_number(const char* op, Scalar value, const Tensor& x);

/// Which dtypes an op takes whose operands are not promoted.
enum class OperandDType : uint8_t { kNumber, kFloating };

/// throws: DTypeError unless a and b have the same dtype, of that kind; DeviceError unless they are
/// on one device.
LATHE_API void check_operands(const char* op, OperandDType kind, const char* a_name,
                              const Tensor& a, const char* b_name, const Tensor& b);

/// throws: DeviceError unless a and b share a device, or one of them is a 0-d CPU tensor.
LATHE_API void check_devices(const char* op, const Tensor& a, const Tensor& b);

}  // namespace lathe
