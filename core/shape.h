// Shapes, strides and lists of dimensions: up to kMaxDims int64 numbers kept inline, and the
// checked arithmetic on them.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/error.h"

namespace lathe {

/// The most dimensions that a tensor can have.
inline constexpr int kMaxDims = 8;

/// A short list of int64 numbers: a shape, strides (in elements), or a list of dimensions.
class LATHE_API Dims {
 public:
  constexpr Dims() = default;
  /// One number: zeros(3), x.sum(0), x.view(-1).
  template <std::integral T>
  requires(!std::same_as<T, bool>) Dims(T value) : values_{static_cast<int64_t>(value)}, size_(1) {}
  Dims(std::initializer_list<int64_t> values) { assign(values.begin(), values.size()); }
  Dims(const std::vector<int64_t>& values) { assign(values.data(), values.size()); }
  /// `count` numbers, all equal to `value`.
  static Dims filled(int count, int64_t value);

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t operator[](int i) const { return values_[i]; }
  int64_t& operator[](int i) { return values_[i]; }
  const int64_t* begin() const { return values_; }
  const int64_t* end() const { return values_ + size_; }
  int64_t* begin() { return values_; }
  int64_t* end() { return values_ + size_; }
  int64_t back() const { return values_[size_ - 1]; }

  /// throws: ShapeError beyond kMaxDims.
  void push_back(int64_t value);
  void insert(int at, int64_t value);
  void erase(int at);
  std::vector<int64_t> vector() const { return {begin(), end()}; }

  bool operator==(const Dims& other) const {
    if (size_ != other.size_) return false;
    for (int i = 0; i < size_; ++i) {
      if (values_[i] != other.values_[i]) return false;
    }
    return true;
  }

 private:
  void assign(const int64_t* values, size_t count);

  int64_t values_[kMaxDims] = {};
  int size_ = 0;
};

using Shape = Dims;
using Strides = Dims;

LATHE_API void append_text(std::string& out, const Dims& dims);  // "[2,3]"
LATHE_API std::ostream& operator<<(std::ostream& out, const Dims& dims);

/// The number of elements.
/// throws: ShapeError if a size is negative, or if the count or the size in bytes of the widest
/// dtype does not fit 63 bits.
LATHE_API int64_t numel_of(const Shape& shape);

/// Row-major strides: the last dimension is dense. A size of 0 counts as 1, as in PyTorch.
LATHE_API Strides contiguous_strides(const Shape& shape);

/// Strides of [N,C,H,W] with dense channels (NHWC order in memory).
/// throws: ShapeError unless 4-d.
LATHE_API Strides channels_last_strides(const Shape& shape);

/// The shape that both broadcast to. Dimensions are aligned right; two sizes are equal or one is 1.
/// throws: ShapeError naming `op` and both shapes.
LATHE_API Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

/// `dim` counted from the front, for a tensor of `ndim` dimensions (0-d takes 0 and -1).
/// throws: IndexError naming `op`, the dimension and the valid range.
LATHE_API int wrap_dim(const char* op, int64_t dim, int ndim);

/// A set of dimensions as a bit mask. An empty list means all dimensions.
/// throws: IndexError (out of range, repeated).
LATHE_API uint32_t dim_mask(const char* op, const Dims& dims, int ndim);

}  // namespace lathe
