// x.index({…}) as in NumPy and PyTorch: numbers, ranges, new dimensions, tensors of indices and
// masks, one per dimension. indexing.cpp.
//   x.index({0, Slice(1, 3)})            x[0, 1:3]
//   x.index({Ellipsis, None, -1})        x[..., None, -1]
//   x.index({mask}), x.index({rows})     the chosen elements or rows, as a copy
// A list that is made at run time is a vector:
//   std::vector<TensorIndex> list(x.ndim(), Slice());  list[d] = rows;  x.index(list)
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "lathe/core/tensor.h"

namespace lathe {

/// In a list of indices: a new dimension of size 1. In a Slice: an open end.
struct NoneType {};
inline constexpr NoneType None;
/// Stands for all dimensions that have no other entry in the list.
struct EllipsisType {};
inline constexpr EllipsisType Ellipsis;

/// Python's start:stop:step. Slice() is all, Slice(None, 2) is [0, 2), Slice(1, None) is all but
/// the first. Negative ends count from the end; ends beyond the tensor are clipped. Slice(2) does
/// not compile, because it would be [0, 2) in Python and [2, end) in LibTorch.
class Slice {
 public:
  /// One end, given as a number or as None.
  struct End : std::optional<int64_t> {
    constexpr End(NoneType) {}
    template <std::integral T>
    constexpr End(T value) : optional(static_cast<int64_t>(value)) {}
  };

  constexpr Slice() = default;
  constexpr explicit Slice(NoneType) {}
  template <std::integral T>
  explicit Slice(T) = delete;
  constexpr Slice(End start, End stop, int64_t step = 1)
      : start_(start), stop_(stop), step_(step) {}

  const End& start() const { return start_; }
  const End& stop() const { return stop_; }
  int64_t step() const { return step_; }

 private:
  End start_ = None, stop_ = None;
  int64_t step_ = 1;
};

/// One entry of an index list.
class TensorIndex {
 public:
  template <std::integral T>
  requires(!std::same_as<T, bool>) TensorIndex(T index) : kind_(static_cast<int64_t>(index)) {}
  TensorIndex(Slice slice) : kind_(slice) {}
  TensorIndex(NoneType none) : kind_(none) {}
  TensorIndex(EllipsisType rest) : kind_(rest) {}
  /// "..." is Ellipsis.
  /// throws: ValueError unless the text is "...".
  TensorIndex(const char* text);
  /// An entry of an index list that is a tensor. A tensor of integers holds indices. A bool tensor
  /// is a mask; a mask with k dimensions takes the place of k entries of the index list.
  TensorIndex(const Tensor& tensor) : kind_(tensor) {}

  using Kind = std::variant<int64_t, Slice, NoneType, EllipsisType, Tensor>;
  const Kind& kind() const { return kind_; }

 private:
  Kind kind_;
};

/// The elements that the list chooses, as in NumPy. Dimensions without an entry are taken whole.
///   - Without tensors in the list, the result is a view of x.
///   - With tensors of indices, the result is a row-major copy. The tensors are broadcast to one
///     shape. That shape replaces the dimensions that they index. If other entries stand between
///     the tensors, that shape comes first instead.
///   - A mask stands for the indices of its true elements, one tensor for each of its dimensions
///     (ops/nonzero.h). index() then waits for the device.
///   - A 0-d tensor of integers stands for the number in it. index() then waits for the device.
///   index tensors  any integers, in [-size, size)
///   masks          bool, of the same sizes as the dimensions that they index
/// dtypes: any.   grad: x, twice differentiable.
/// throws: IndexError (too many entries, a number or an index out of range, two Ellipsis, a mask of
/// another shape), ShapeError (index tensors that do not broadcast), DTypeError (floating indices),
/// ValueError (a step below 1).
/// ref: NumPy, "Indexing on ndarrays".
LATHE_API Tensor index(const Tensor& x, std::initializer_list<TensorIndex> indices);
LATHE_API Tensor index(const Tensor& x, std::span<const TensorIndex> indices);

/// Writes `values` to the elements that index() with the same list would read. index_put_ converts
/// `values` to x's dtype and broadcasts them to the shape of index()'s result. `values` may have
/// extra dimensions of size 1 in front. If several values go to one element, the last one stays.
/// grad: x, values, twice differentiable.
/// throws: what index() throws, and what in-place ops throw (ops/inplace.h); x is then unchanged.
LATHE_API const Tensor& index_put_(const Tensor& x, std::initializer_list<TensorIndex> indices,
                                   const Tensor& values);
LATHE_API const Tensor& index_put_(const Tensor& x, std::initializer_list<TensorIndex> indices,
                                   Scalar value);
LATHE_API const Tensor& index_put_(const Tensor& x, std::span<const TensorIndex> indices,
                                   const Tensor& values);
LATHE_API const Tensor& index_put_(const Tensor& x, std::span<const TensorIndex> indices,
                                   Scalar value);

}  // namespace lathe
