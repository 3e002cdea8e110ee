// Windows that slide over a tensor (windows.cpp): as a view along any dimension, and as columns,
// with which a convolution is a matrix product.
// Any strides, zero-size.
// grad: x, twice differentiable; elements in several windows get the sum.
// amp: none, the dtype stays.
#pragma once

#include <concepts>

#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"

namespace lathe {

/// A view of the windows of `size` neighbours along `dim`, one every `step` elements: PyTorch's
/// x.unfold(dim, size, step). If windows overlap, the view cannot be written in place.
///   →  x's shape, with (n - size) / step + 1 in place of n (the size of `dim`), and a new last
///      dimension of `size`
/// dtypes: any.
/// throws: ValueError unless size >= 0 and step > 0; ShapeError for a size above n; IndexError.
LATHE_API Tensor windows(const Tensor& x, int64_t dim, int64_t size, int64_t step);

struct UnfoldOptions {
  Pair kernel = 1;    // rows and columns of a window
  Pair stride = 1;    // from one window to the next
  Pair pad = 0;       // zeros added on each side
  Pair dilation = 1;  // distance between the elements of a window
};
/// The windows of images, each window as a column of the result (im2col).
///   x  [N,C,H,W]   →  [N,C*kernel.rows*kernel.cols,L], with L = P*Q windows, row by row; P and Q
///      are those of conv2d (ops/conv2d.h)
/// dtypes: any.
/// throws: ValueError unless kernel, stride and dilation are positive and pad is not negative;
/// ShapeError.
LATHE_API Tensor unfold(const Tensor& x, const UnfoldOptions& options);
/// With square windows: unfold(x, 3).
inline Tensor unfold(const Tensor& x, std::integral auto kernel) {
  return unfold(x, UnfoldOptions{.kernel = kernel});
}

/// The adjoint of unfold (col2im): adds each element of the columns to the pixel from which unfold
/// would copy the element.
///   columns  [N,C*kernel.rows*kernel.cols,L]   size  {H,W}   →  [N,C,H,W]
/// dtypes: numbers.
/// throws: ValueError for options that unfold refuses, or a size below 1; ShapeError if columns do
/// not fit.
LATHE_API Tensor fold(const Tensor& columns, Pair size, const UnfoldOptions& options);

}  // namespace lathe
