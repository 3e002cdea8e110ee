// What linalg.h's ops check, and how they bring their matrices to the kernels (linalg_eigen.h).
#pragma once

#include <string>
#include <utility>

#include "lathe/core/tensor.h"

namespace lathe::linalg {

/// throws: DTypeError unless a is f32 or f64; ShapeError for fewer than 2 dimensions.
void check_matrices(const char* op, const Tensor& a);
/// As check_matrices(); ShapeError unless the matrices are square.
void check_square(const char* op, const Tensor& a);
/// As check_matrices(); ValueError unless all elements are finite. Waits for the device.
void check_finite(const char* op, const Tensor& a);
/// a and b with their leading dimensions broadcast.
/// throws: ShapeError, DTypeError, DeviceError.
std::pair<Tensor, Tensor> same_batch(const char* op, const Tensor& a, const Tensor& b);

/// inv(a) for the op `caller`, with whose name errors begin (solve.cpp).
Tensor inverse_for(const char* caller, const Tensor& a);

/// The matrices of a as kernels take them: [B,m,n], dense, f64, on the CPU. Without history.
Tensor to_kernel(const Tensor& a);
/// A result of kernels, [B, …], with a's leading dimensions, dtype and device.
Tensor from_kernel(const Tensor& y, const Tensor& a);
/// Zeros for a result of kernels, [B, …sizes], where a is as to_kernel() gives it.
Tensor result_for(const Tensor& a, const Shape& sizes);
Tensor transposed(const Tensor& a);
/// "the matrix", or "matrix 2 of the batch".
std::string name_of(const Tensor& a, int64_t matrix);

}  // namespace lathe::linalg
