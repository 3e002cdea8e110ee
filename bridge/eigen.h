// Bridge to Eigen: tensors over the memory of matrices, and matrices over the memory of tensors.
//   Tensor t = bridge::as_tensor(m);                          // m's memory, [rows, columns]
//   auto w = bridge::as_eigen<Eigen::MatrixXf>(t);            // t's memory
// as_…() shares memory: each side sees what the other writes. to_…() copies.
// Header-only: a program that includes it brings its own Eigen (3.4 or later), with any flags.
// Nothing of Eigen is passed to the compiled library.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "lathe/bridge/shared_memory.h"
#include "lathe/core/copy.h"
#include "lathe/core/half.h"

namespace lathe::bridge {

/// A matrix, array, vector, map, block or other expression of Eigen.
template <class M>
concept EigenExpression =
    std::is_base_of_v<Eigen::DenseBase<std::remove_cvref_t<M>>, std::remove_cvref_t<M>>;

/// A matrix over the memory of a tensor, whatever the tensor's strides.
template <class M>
using EigenView = Eigen::Map<M, Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

namespace detail {

template <class T>
inline constexpr DType kEigenDType = dtype_of<T>;
template <>
inline constexpr DType kEigenDType<Eigen::half> = kF16;
template <>
inline constexpr DType kEigenDType<Eigen::bfloat16> = kBF16;

template <class M>
inline constexpr bool kOwnsMemory = std::is_base_of_v<Eigen::PlainObjectBase<M>, M>;

/// A tensor seen as a matrix; strides in elements.
struct MatrixForm {
  int64_t rows, columns, row_stride, column_stride;
};

/// throws: ShapeError unless M can have this tensor's shape.
template <class M>
MatrixForm matrix_form(const Tensor& t, const char* name) {
  constexpr int kRows = M::RowsAtCompileTime, kColumns = M::ColsAtCompileTime;
  constexpr bool kIsRow = kRows == 1 && kColumns != 1;
  const Shape& shape = t.shape();
  MatrixForm form{1, 1, 1, 1};
  if (t.ndim() == 2) {
    form = {shape[0], shape[1], t.strides()[0], t.strides()[1]};
  } else if (t.ndim() == 1 && M::IsVectorAtCompileTime) {
    form = kIsRow ? MatrixForm{1, shape[0], shape[0] * t.strides()[0], t.strides()[0]}
                  : MatrixForm{shape[0], 1, t.strides()[0], shape[0] * t.strides()[0]};
  } else {
    LATHE_FAIL(ShapeError, name, ": a tensor of ", t.ndim(), " dimensions is no ",
               M::IsVectorAtCompileTime ? "vector" : "matrix", " (t: ", t, ")");
  }
  const auto fits = [](int64_t size, int fixed, int most) {
    return (fixed == Eigen::Dynamic || size == fixed) && (most == Eigen::Dynamic || size <= most);
  };
  const auto text = [](int most) { return most == Eigen::Dynamic ? "any" : concat(most); };
  LATHE_CHECK(ShapeError,
              fits(form.rows, kRows, M::MaxRowsAtCompileTime) &&
                  fits(form.columns, kColumns, M::MaxColsAtCompileTime),
              name, ": the matrix type has ", text(M::MaxRowsAtCompileTime), " rows and ",
              text(M::MaxColsAtCompileTime), " columns (t: ", t, ")");
  return form;
}

/// throws: as as_eigen().
template <class M>
MatrixForm shared_form(const Tensor& t, const char* name) {
  using Plain = std::remove_const_t<M>;
  check_shareable(t, name);
  constexpr DType kDType = kEigenDType<typename Plain::Scalar>;
  LATHE_CHECK(DTypeError, t.dtype() == kDType, name, ": the matrix type holds ", kDType, " (t: ", t,
              ")");
  LATHE_CHECK(
      ValueError, std::is_const_v<M> || !has_overlap(t), name,
      ": elements share memory, so that they cannot be written; ask for a const matrix (t: ", t,
      ", strides ", t.strides(), ")");
  return matrix_form<Plain>(t, name);
}

}  // namespace detail

/// A tensor over a matrix's memory, with the matrix's strides. Its shape is [rows, columns], or
/// [size] if the type of m is a vector. A column-major matrix gives strides [1, rows]; contiguous()
/// then copies.
///   m      a matrix, array or map, or a block or transpose of one of these; not const
///   owner  kept until the last tensor over the memory is gone. Without an owner, m must outlive
///          these tensors and keep its size
/// dtypes: those of tensors; Eigen::half is f16, Eigen::bfloat16 bf16.
/// throws: ValueError for negative strides.
template <EigenExpression M>
Tensor as_tensor(M&& m, std::shared_ptr<const void> owner = {}) {
  using Plain = std::remove_cvref_t<M>;
  static_assert((Plain::Flags & Eigen::DirectAccessBit) != 0,
                "this expression has no memory of its own: use to_tensor()");
  static_assert(
      (Plain::Flags & Eigen::LvalueBit) != 0 && !std::is_const_v<std::remove_reference_t<M>>,
      "a tensor can be written, this matrix cannot: use to_tensor()");
  static_assert(std::is_lvalue_reference_v<M> || !detail::kOwnsMemory<Plain>,
                "this matrix is about to be destroyed: use to_tensor(), which takes its memory");
  Shape shape;
  Strides strides;
  if constexpr (Plain::IsVectorAtCompileTime) {
    shape = {m.size()};
    strides = {m.innerStride()};
  } else {
    shape = {m.rows(), m.cols()};
    strides = {m.rowStride(), m.colStride()};
  }
  return detail::tensor_over(
      m.data(), shape, strides, detail::kEigenDType<typename Plain::Scalar>,
      [owner = std::move(owner)] {}, "as_tensor");
}

/// A tensor with the values of a matrix or expression. The tensor owns its memory: a copy or, if m
/// is a matrix that is moved here, the matrix's memory. Shape and order of elements are those of
/// as_tensor().
template <EigenExpression M>
Tensor to_tensor(M&& m) {
  using Plain = typename std::remove_cvref_t<M>::PlainObject;
  const auto kept = std::make_shared<Plain>(std::forward<M>(m));
  return as_tensor(*kept, kept);
}

/// A matrix over the memory of tensor t, which must outlive the matrix. After writing through the
/// matrix, call t.bump_version().
///   M  a matrix, array or vector of Eigen, of fixed or dynamic sizes; a const M only reads. A
///      vector takes a tensor of one dimension. A column vector also takes [n,1], a row vector
///      [1,n].
/// throws: ShapeError, DTypeError if M does not fit the tensor; DeviceError unless the tensor is on
/// the CPU; StateError if it requires grad; ValueError if its elements overlap and M is not const.
template <class M>
EigenView<M> as_eigen(const Tensor& t) {
  const detail::MatrixForm form = detail::shared_form<M>(t, "as_eigen");
  const auto [outer, inner] = M::IsRowMajor ? std::pair(form.row_stride, form.column_stride)
                                            : std::pair(form.column_stride, form.row_stride);
  return EigenView<M>(static_cast<typename M::Scalar*>(t.raw_data()), form.rows, form.columns,
                      Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(outer, inner));
}

/// Like as_eigen(), for a tensor that is dense in M's order. Eigen computes faster with this
/// matrix, because its strides are known at compile time. A row-major M fits a contiguous tensor.
/// throws: what as_eigen() throws; ValueError naming t's strides if t is not dense in M's order.
template <class M>
Eigen::Map<M> as_dense_eigen(const Tensor& t) {
  const detail::MatrixForm form = detail::shared_form<M>(t, "as_dense_eigen");
  const int64_t row_stride = M::IsRowMajor ? form.columns : 1;
  const int64_t column_stride = M::IsRowMajor ? 1 : form.rows;
  LATHE_CHECK(ValueError,
              t.numel() == 0 || ((form.rows == 1 || form.row_stride == row_stride) &&
                                 (form.columns == 1 || form.column_stride == column_stride)),
              "as_dense_eigen: the tensor is not dense in ",
              M::IsRowMajor ? "row-major" : "column-major", " order (t: ", t, ", strides ",
              t.strides(), "); as_eigen() takes any strides");
  return Eigen::Map<M>(static_cast<typename M::Scalar*>(t.raw_data()), form.rows, form.columns);
}

/// A matrix with the values of a tensor of any device, dtype and strides, without its gradient.
/// throws: ShapeError if M does not fit the tensor's shape.
template <class M>
M to_eigen(const Tensor& t) {
  const detail::MatrixForm form = detail::matrix_form<M>(t, "to_eigen");
  M out;
  out.resize(form.rows, form.columns);
  const Tensor to = as_tensor(out);
  copy_values(to, t.detach().reshape(to.shape()));
  return out;
}

}  // namespace lathe::bridge
