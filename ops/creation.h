// New tensors. Shapes are checked before any memory is allocated. creation.cpp: checks;
// elementwise_kernels/creation_cpu.cpp and creation_cuda.cu: arange and linspace; creation_math.h:
// their arithmetic.
// dtypes: options.dtype; if unset, the default dtype, unless the function's comment says otherwise.
// throws: ShapeError, OutOfMemoryError, NoCudaError; ValueError for a number beyond the dtype.
#pragma once

#include <initializer_list>
#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/ops/creation_math.h"

namespace lathe {

LATHE_API Tensor zeros(const Shape& shape, const TensorOptions& options = {});
LATHE_API Tensor ones(const Shape& shape, const TensorOptions& options = {});
/// A tensor in which every element is `value`.
/// dtypes: if unset, i64 for an integer `value`, bool for a bool, else the default dtype.
LATHE_API Tensor full(const Shape& shape, Scalar value, const TensorOptions& options = {});

// The results have the shape, dtype, device and stride order of `like`.
LATHE_API Tensor zeros_like(const Tensor& like);
LATHE_API Tensor ones_like(const Tensor& like);
LATHE_API Tensor full_like(const Tensor& like, Scalar value);
// Like the functions above, but the results have the dtype `dtype`.
LATHE_API Tensor zeros_like(const Tensor& like, DType dtype);
LATHE_API Tensor ones_like(const Tensor& like, DType dtype);
LATHE_API Tensor full_like(const Tensor& like, Scalar value, DType dtype);

/// The numbers start, start + step, … below `stop` (above `stop` for a negative step). start is 0
/// and step is 1 if not given.
/// dtypes: if unset, i64 if all arguments are integers, else the default dtype. Numbers beyond a
/// narrower integer dtype wrap, as in PyTorch.
/// throws: ValueError if step is 0 or leads away from `stop`, or an argument is not finite;
/// ShapeError for more elements than a tensor can have.
LATHE_API Tensor arange(Scalar stop, const TensorOptions& options = {});
LATHE_API Tensor arange(Scalar start, Scalar stop, Scalar step = 1,
                        const TensorOptions& options = {});

/// `count` evenly spaced numbers from start to stop, both included.
/// throws: ValueError for a negative count, or if start, stop or their difference is not finite.
LATHE_API Tensor linspace(double start, double stop, int64_t count,
                          const TensorOptions& options = {});

/// A matrix [rows, columns] with ones on the diagonal; [rows, rows] without `columns`.
LATHE_API Tensor eye(int64_t rows, const TensorOptions& options = {});
LATHE_API Tensor eye(int64_t rows, int64_t columns, const TensorOptions& options);

// Overloads with a dtype in place of options: zeros({2, 3}, kF64).
// clang-format off
inline Tensor empty(const Shape& shape, DType dtype) { return empty(shape, {.dtype = dtype}); }
inline Tensor zeros(const Shape& shape, DType dtype) { return zeros(shape, {.dtype = dtype}); }
inline Tensor ones(const Shape& shape, DType dtype) { return ones(shape, {.dtype = dtype}); }
inline Tensor full(const Shape& shape, Scalar value, DType dtype) { return full(shape, value, {.dtype = dtype}); }
inline Tensor arange(Scalar stop, DType dtype) { return arange(stop, {.dtype = dtype}); }
inline Tensor arange(Scalar start, Scalar stop, DType dtype) { return arange(start, stop, 1, {.dtype = dtype}); }
inline Tensor arange(Scalar start, Scalar stop, Scalar step, DType dtype) { return arange(start, stop, step, {.dtype = dtype}); }
inline Tensor linspace(double start, double stop, int64_t count, DType dtype) { return linspace(start, stop, count, {.dtype = dtype}); }
inline Tensor eye(int64_t rows, DType dtype) { return eye(rows, {.dtype = dtype}); }
// clang-format on

/// A 0-d tensor of one number.
/// dtypes: if unset, as for tensor() of a braced list, below.
template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(T value, const TensorOptions& options = {});

/// A tensor of the given numbers: [n] from a vector or a braced list; [n,m] and [n,m,k] from nested
/// lists, as in tensor({{1.0, 2.0}, {3.0, 4.0}}).
/// dtypes: if unset, numbers written as 1.0 give the default dtype, and numbers written as 1 give
/// i64. Vectors, and numbers of other C++ types, keep the element type (1.f gives f32).
/// throws: ShapeError if rows differ in length.
template <class T>
Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {});
template <class T>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {});
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows,
              const TensorOptions& options = {});
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes,
              const TensorOptions& options = {});

template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(T value, DType dtype) {
  return tensor(value, TensorOptions{.dtype = dtype});
}
template <class T>
Tensor tensor(const std::vector<T>& values, DType dtype) {
  return tensor(values, TensorOptions{.dtype = dtype});
}
template <class T>
Tensor tensor(std::initializer_list<T> values, DType dtype) {
  return tensor(values, TensorOptions{.dtype = dtype});
}
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, DType dtype) {
  return tensor(rows, TensorOptions{.dtype = dtype});
}
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes,
              DType dtype) {
  return tensor(planes, TensorOptions{.dtype = dtype});
}

namespace detail {
/// A copy of host values with shape `shape`, and with dtype, device and gradient flag of `options`.
LATHE_API Tensor from_values(const void* values, size_t count, DType dtype, const Shape& shape,
                             const TensorOptions& options);
/// throws: ShapeError "rows differ in length".
LATHE_API void check_row_length(size_t expected, size_t got);
/// `options`, with the dtype for literals of type T if none is set.
template <class T>
TensorOptions options_of_literals(TensorOptions options) {
  if (!options.dtype && std::is_same_v<T, double>) options.dtype = default_dtype();
  if (!options.dtype && std::is_same_v<T, int>) options.dtype = kI64;
  return options;
}
}  // namespace detail

template <class T>
requires std::is_arithmetic_v<T> Tensor tensor(T value, const TensorOptions& options) {
  return detail::from_values(&value, 1, dtype_of<T>, {}, detail::options_of_literals<T>(options));
}

template <class T>
Tensor tensor(const std::vector<T>& values, const TensorOptions& options) {
  static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no elements to copy");
  return detail::from_values(values.data(), values.size(), dtype_of<T>,
                             {static_cast<int64_t>(values.size())}, options);
}

template <class T>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options) {
  return detail::from_values(values.begin(), values.size(), dtype_of<T>,
                             {static_cast<int64_t>(values.size())},
                             detail::options_of_literals<T>(options));
}

template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, const TensorOptions& options) {
  std::vector<std::remove_cv_t<T>> values;
  const size_t columns = rows.size() == 0 ? 0 : rows.begin()->size();
  for (const auto& row : rows) {
    detail::check_row_length(columns, row.size());
    values.insert(values.end(), row.begin(), row.end());
  }
  return detail::from_values(values.data(), values.size(), dtype_of<T>,
                             {static_cast<int64_t>(rows.size()), static_cast<int64_t>(columns)},
                             detail::options_of_literals<T>(options));
}

template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> planes,
              const TensorOptions& options) {
  std::vector<T> values;
  const size_t rows = planes.size() == 0 ? 0 : planes.begin()->size();
  const size_t columns = rows == 0 ? 0 : planes.begin()->begin()->size();
  for (const auto& plane : planes) {
    detail::check_row_length(rows, plane.size());
    for (const auto& row : plane) {
      detail::check_row_length(columns, row.size());
      values.insert(values.end(), row.begin(), row.end());
    }
  }
  const Shape shape{static_cast<int64_t>(planes.size()), static_cast<int64_t>(rows),
                    static_cast<int64_t>(columns)};
  return detail::from_values(values.data(), values.size(), dtype_of<T>, shape,
                             detail::options_of_literals<T>(options));
}

namespace cpu {
/// out[i] = s(i), converted as in core/copy; out is contiguous.
void fill_sequence(const Tensor& out, math::IntegerSequence s);
void fill_sequence(const Tensor& out, math::FloatSequence s);
void fill_sequence(const Tensor& out, math::EvenlySpaced s);
}  // namespace cpu
namespace cuda {
void fill_sequence(const Tensor& out, math::IntegerSequence s);
void fill_sequence(const Tensor& out, math::FloatSequence s);
void fill_sequence(const Tensor& out, math::EvenlySpaced s);
}  // namespace cuda

}  // namespace lathe
