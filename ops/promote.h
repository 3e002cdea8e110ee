// What ops of several operands agree on: their common dtype and device.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// PyTorch's rule: tensors with dimensions promote each other; 0-d tensors raise the category only.
LATHE_API DType result_dtype(const Tensor& a, const Tensor& b);

/// A Scalar as a 0-d CPU tensor of the dtype that `a`'s category and the number's own make
/// together.
LATHE_API Tensor scalar_like(Scalar value, const Tensor& a);

/// The dtypes that an op takes whose operands do not promote.
enum class OperandDType : uint8_t { kNumber, kFloating };

/// throws: DTypeError unless a and b have one dtype of that kind, DeviceError unless they are on
/// one device.
LATHE_API void check_operands(const char* op, OperandDType kind, const char* a_name,
                              const Tensor& a, const char* b_name, const Tensor& b);

/// throws: DeviceError unless a and b share a device, or one of them is a 0-d CPU tensor.
LATHE_API void check_devices(const char* op, const Tensor& a, const Tensor& b);

}  // namespace lathe
