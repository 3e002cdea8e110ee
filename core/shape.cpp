// Dims, and the arithmetic on shapes: element counts, strides, broadcasting, dimension numbers.
#include "lathe/core/shape.h"

#include <algorithm>

namespace lathe {

void Dims::assign(const int64_t* values, size_t count) {
  LATHE_CHECK(ShapeError, count <= kMaxDims, "shape: ", count, " dimensions, at most ", kMaxDims,
              " are supported");
  std::copy_n(values, count, values_);
  size_ = static_cast<int>(count);
}

Dims Dims::filled(int count, int64_t value) {
  Dims dims;
  for (int i = 0; i < count; ++i) dims.push_back(value);
  return dims;
}

void Dims::push_back(int64_t value) { insert(size_, value); }

void Dims::insert(int at, int64_t value) {
  LATHE_CHECK(ShapeError, size_ < kMaxDims, "shape: ", size_ + 1, " dimensions, at most ", kMaxDims,
              " are supported");
  std::copy_backward(values_ + at, values_ + size_, values_ + size_ + 1);
  values_[at] = value;
  ++size_;
}

void Dims::erase(int at) {
  std::copy(values_ + at + 1, values_ + size_, values_ + at);
  --size_;
}

void append_text(std::string& out, const Dims& dims) {
  out.push_back('[');
  for (int i = 0; i < dims.size(); ++i) {
    if (i > 0) out.push_back(',');
    append_text(out, dims[i]);
  }
  out.push_back(']');
}

int64_t numel_of(const Shape& shape) {
  // 8: the count in bytes must fit for the widest dtype.
  constexpr int64_t kLargest = INT64_MAX / 8;
  int64_t count = 1, extent = 1;  // extent: the same with 0 counted as 1
  for (const int64_t size : shape) {
    LATHE_CHECK(ShapeError, size >= 0, "shape: negative size ", size, " in ", shape);
    const int64_t at_least_one = std::max<int64_t>(size, 1);
    LATHE_CHECK(ShapeError, extent <= kLargest / at_least_one, "shape: ", shape,
                " has more elements than 64 bits can count in bytes");
    extent *= at_least_one;
    count *= size;
  }
  return count;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  uint64_t step = 1;  // unsigned: a shape that is too large wraps here and numel_of refuses it
  for (int i = shape.size() - 1; i >= 0; --i) {
    strides[i] = static_cast<int64_t>(step);
    step *= static_cast<uint64_t>(std::max<int64_t>(shape[i], 1));
  }
  return strides;
}

Strides channels_last_strides(const Shape& shape) {
  LATHE_CHECK(ShapeError, shape.size() == 4, "channels_last: expected [N,C,H,W], got ", shape);
  const int64_t c = std::max<int64_t>(shape[1], 1), h = std::max<int64_t>(shape[2], 1),
                w = std::max<int64_t>(shape[3], 1);
  return {h * w * c, 1, w * c, c};
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape out = longer;
  const int lead = longer.size() - shorter.size();
  for (int i = 0; i < shorter.size(); ++i) {
    const int64_t p = longer[lead + i], q = shorter[i];
    LATHE_CHECK(ShapeError, p == q || p == 1 || q == 1, op, ": shapes ", a, " and ", b,
                " do not broadcast: sizes ", p, " and ", q, " at dimension ", lead + i);
    out[lead + i] = p == 1 ? q : p;
  }
  return out;
}

int wrap_dim(const char* op, int64_t dim, int ndim) {
  const int64_t range = std::max(ndim, 1);
  LATHE_CHECK(IndexError, dim >= -range && dim < range, op, ": dimension ", dim, " is outside [",
              -range, ",", range - 1, "]");
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

uint32_t dim_mask(const char* op, const Dims& dims, int ndim) {
  if (dims.empty()) return (1u << ndim) - 1;
  uint32_t mask = 0;
  for (const int64_t dim : dims) {
    const uint32_t bit = 1u << wrap_dim(op, dim, ndim);
    LATHE_CHECK(IndexError, (mask & bit) == 0, op, ": dimension ", dim, " is given twice in ",
                dims);
    mask |= bit;
  }
  return mask;
}

}  // namespace lathe
