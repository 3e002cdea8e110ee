// NamedTensor: a tensor whose dimensions have names, so that code says "sum over time", not "over
// dimension 2". A light layer: the names live beside the tensor, the work is that of the views and
// reductions it calls, and gradients flow as ever.
//   const NamedTensor x(images, {"N", "C", "H", "W"});
//   const NamedTensor mean = x.mean({"H", "W"});                   // N, C
//   const NamedTensor centred = x - mean.align_as(x);              // N, C, H, W
//   const Tensor nhwc = centred.align_to({"N", "H", "W", "C"}).tensor();
// Arithmetic matches dimensions from the last, as broadcasting does, and refuses two different
// names in one place. "" is a dimension without a name; it matches any.
// ref: Rush 2019, "Tensor Considered Harmful"; the rules are those of PyTorch's named tensors.
#pragma once

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe {

class LATHE_API NamedTensor {
 public:
  using Names = std::vector<std::string>;

  /// throws: ShapeError unless there is a name for each dimension; ValueError for a name that comes
  /// twice, and for "...".
  NamedTensor(const Tensor& tensor, const Names& names);

  const Tensor& tensor() const { return tensor_; }
  const Names& names() const { return names_; }
  int ndim() const { return tensor_.ndim(); }
  const Shape& shape() const { return tensor_.shape(); }
  /// The position of a dimension; its size.
  /// throws: IndexError naming the dimensions that there are. So do all functions that take names.
  int dim(const std::string& name) const;
  int64_t size(const std::string& name) const { return tensor_.shape()[dim(name)]; }

  // --- names -------------------------------------------------------------------------------------
  NamedTensor rename(const Names& names) const { return {tensor_, names}; }
  NamedTensor rename(const std::string& from, const std::string& to) const;
  /// The dimensions in this order. A name that the tensor lacks becomes a new dimension of size 1;
  /// "..." stands for all that are not listed. A view.
  /// throws: ValueError if a dimension is left out or has no name, or for a name or "..." that
  /// comes twice.
  NamedTensor align_to(const Names& order) const;
  /// align_to(other.names()).
  NamedTensor align_as(const NamedTensor& other) const { return align_to(other.names()); }

  // --- parts, as views ---------------------------------------------------------------------------
  NamedTensor select(const std::string& name, int64_t index) const;
  NamedTensor slice(const std::string& name, int64_t start, int64_t stop = INT64_MAX,
                    int64_t step = 1) const;
  /// Neighbouring dimensions as one, which is called `into`. A copy if it must be.
  /// throws: ValueError unless they stand side by side in this order.
  NamedTensor flatten(const Names& dims, const std::string& into) const;
  /// One dimension as several. One size may be -1.
  /// throws: ShapeError unless the sizes fit.
  NamedTensor unflatten(const std::string& name,
                        const std::vector<std::pair<std::string, int64_t>>& into) const;

  // --- reductions; ops/reduce.h has the rules ----------------------------------------------------
  NamedTensor sum(const Names& dims) const;
  NamedTensor mean(const Names& dims) const;
  NamedTensor amax(const Names& dims) const;
  NamedTensor amin(const Names& dims) const;
  NamedTensor softmax(const std::string& name) const;

  /// f of the tensor, under the same names.
  /// throws: ShapeError if f's result has another number of dimensions.
  NamedTensor map(const std::function<Tensor(const Tensor&)>& f) const {
    return {f(tensor_), names_};
  }

 private:
  Dims dims(const Names& names) const;
  NamedTensor without(const Dims& gone, const Tensor& reduced) const;

  Tensor tensor_;
  Names names_;
};

/// Broadcast and matched by name.
/// throws: ValueError for two names in one place, or a name in two places; ShapeError.
LATHE_API NamedTensor operator+(const NamedTensor& a, const NamedTensor& b);
LATHE_API NamedTensor operator-(const NamedTensor& a, const NamedTensor& b);
LATHE_API NamedTensor operator*(const NamedTensor& a, const NamedTensor& b);
LATHE_API NamedTensor operator/(const NamedTensor& a, const NamedTensor& b);

/// a @ b over the last dimension of a and the second last of b, which may have different names. The
/// result has a's names, but the last one of b. Matrices and batches of matrices.
/// throws: as above; ShapeError for fewer than 2 dimensions.
LATHE_API NamedTensor matmul(const NamedTensor& a, const NamedTensor& b);

/// "N: 2, C: 3" and the tensor.
LATHE_API std::ostream& operator<<(std::ostream& out, const NamedTensor& x);

}  // namespace lathe
