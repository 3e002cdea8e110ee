// A tensor: storage, shape, strides and offset. The element {i, j} is
//
//   storage[offset + i * strides[0] + j * strides[1]]
//
// and that is the whole rule. A transpose swaps two strides, a row is an offset, and a stride of 0
// repeats an element without a copy. Such tensors are views: they share their storage with the
// tensor that they were made from, and what is written through one is seen through all.
//
// Ops compute at once, on the host. Every number is a double. So gradients can be checked by
// differences, and two programs that add in different orders agree to twelve digits.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "pool.h"

namespace tiny {

using Shape = std::vector<int64_t>;
using Strides = std::vector<int64_t>;  // in elements

/// The allocator of all tensors, over a fake device of 1 GiB. As ops compute at once, all tensors
/// are of stream 0: tests/tiny/pool_test.cpp shows the pool with several.
inline Pool& default_pool() {
  static Device device(size_t{1} << 30);
  static Pool pool(device);
  return pool;
}

/// A block of memory, and its version: a counter that every write in place raises. The tape
/// compares it (Saved in tape.h): a gradient of changed numbers is an error, not a wrong number.
class Storage {
 public:
  /// `size` zeros.
  /// throws: OutOfMemoryError.
  explicit Storage(int64_t size, Pool& pool = default_pool())
      : pool_(pool), data_(static_cast<double*>(pool.allocate(size * sizeof(double)))) {
    std::fill_n(data_, size, 0.0);
  }
  ~Storage() { pool_.deallocate(data_); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  double* data() { return data_; }
  int64_t version() const { return version_; }
  void bump_version() { ++version_; }

 private:
  Pool& pool_;
  double* data_;  // the pool's; null for 0 elements
  int64_t version_ = 0;
};

/// The number of elements.
/// throws: ShapeError if a size is negative or the elements do not fit into 2^60 bytes.
inline int64_t numel_of(const Shape& shape) {
  constexpr int64_t kMost = int64_t{1} << 57;
  int64_t numel = 1;
  for (const int64_t size : shape) {
    check<ShapeError>(size >= 0, "a shape must not be negative, got ", shape);
    check<ShapeError>(size == 0 || numel <= kMost / size, "too many elements: ", shape);
    numel *= size;
  }
  return numel;
}

/// Row-major: the last dimension is dense, each other one steps over those behind it.
inline Strides contiguous_strides(const Shape& shape) {
  Strides strides(shape.size());
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0; step *= shape[d]) strides[d] = step;
  return strides;
}

struct Meta;  // tape.h: what the tape knows of a tensor

/// A handle: a copy shows the same numbers. So const protects the handle and not the numbers, which
/// a copy can write. Tensor() is undefined: its shape is [], as a scalar's, but it has no numbers.
class Tensor {
 public:
  Tensor() = default;
  /// Zeros, row-major.
  explicit Tensor(const Shape& shape) : shape_(shape), strides_(contiguous_strides(shape)) {
    storage_ = std::make_shared<Storage>(numel_of(shape));
  }
  /// These values, row-major.
  Tensor(const Shape& shape, const std::vector<double>& values) : Tensor(shape) {
    check<ShapeError>(std::ssize(values) == numel(), values.size(), " values for the shape ",
                      shape);
    std::copy(values.begin(), values.end(), data());
  }

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  const Strides& strides() const { return strides_; }
  int64_t offset() const { return offset_; }
  int64_t numel() const { return numel_of(shape_); }
  size_t ndim() const { return shape_.size(); }
  int64_t dim(size_t d) const { return shape_[d]; }
  bool is_contiguous() const { return strides_ == contiguous_strides(shape_); }

  /// The first element. A row-major tensor's others follow it.
  double* data() { return storage_->data() + offset_; }
  const double* data() const { return storage_->data() + offset_; }
  Storage& storage() { return *storage_; }
  const Storage& storage() const { return *storage_; }

  /// The only element.
  /// throws: ShapeError if there are none or several.
  double item() const {
    check<ShapeError>(numel() == 1, "item: the tensor has the shape ", shape_);
    return *data();
  }

  /// Another look at the same storage. The tape knows nothing of it: views.h has the views that do.
  Tensor as_strided(const Shape& shape, const Strides& strides, int64_t offset) const {
    Tensor view = *this;
    view.shape_ = shape;
    view.strides_ = strides;
    view.offset_ = offset;
    view.meta_ = nullptr;
    return view;
  }

  const std::shared_ptr<Meta>& meta() const { return meta_; }
  void set_meta(std::shared_ptr<Meta> meta) { meta_ = std::move(meta); }

 private:
  std::shared_ptr<Storage> storage_;
  Shape shape_;
  Strides strides_;
  int64_t offset_ = 0;
  std::shared_ptr<Meta> meta_;  // null: no gradient is wanted
};

/// Calls f(offsets) for each element of `shape`, in row-major order: offsets[k] is the element's
/// place under strides[k]. Every op that may meet a view walks like this. For the shape [2,2] with
/// the strides {2,1} and, transposed, {1,2}, f gets {0,0}, {1,2}, {2,1} and {3,3}.
template <size_t N, class F>
void for_each_offset(const Shape& shape, const std::array<Strides, N>& strides, F&& f,
                     std::array<int64_t, N> at = {}, size_t dim = 0) {
  if (dim == shape.size()) return f(at);
  for (int64_t i = 0; i < shape[dim]; ++i) {
    for_each_offset(shape, strides, f, at, dim + 1);
    for (size_t k = 0; k < N; ++k) at[k] += strides[k][dim];
  }
}

/// The values in row-major order, in a storage of their own.
inline Tensor copy_of(const Tensor& x) {
  Tensor y(x.shape());
  double* to = y.data();
  const double* from = x.data();
  for_each_offset<1>(x.shape(), {x.strides()}, [&](const auto& at) { *to++ = from[at[0]]; });
  return y;
}

}  // namespace tiny

// What the real one adds, and why
// - core/dtype.h: types. Half types make a GPU several times as fast; bytes are what images are.
// - core/tensor.h: a handle is one pointer to what is a struct here (core/tensor_impl.h), so copies
//   of it are cheap. Memory is not set to zero first, as most ops write all of it.
