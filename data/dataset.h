// Dataset: numbered samples, each written straight into its place in a batch; and small data sets
// over tensors and functions. dataset_parts.h has subsets and concatenations,
// images/image_datasets.h images, data_loader.h the loader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/tensor.h"
#include "lathe/data/random.h"

namespace lathe::data {

/// One named part of a sample. `shape` has no batch dimension.
struct Field {
  std::string name;
  Shape shape;  // {}: one number
  DType dtype = kF32;
};

/// The parts of a sample. Field 0 becomes batch.x, field 1 (if there is one) batch.y.
struct SampleSpec {
  std::vector<Field> fields;
};

/// The memory of a batch: one dense tensor [N, …] per field.
class LATHE_API BatchBuffer {
 public:
  BatchBuffer() = default;
  /// Allocates uninitialised memory for `samples` samples; with `pinned` the memory is page-locked.
  /// throws: ValueError if `spec` has no fields; ShapeError if a size is negative or too large;
  /// NoCudaError if `pinned` is set and there is no GPU; OutOfMemoryError.
  BatchBuffer(const SampleSpec& spec, int64_t samples, bool pinned = false);

  const SampleSpec& spec() const { return spec_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  friend class Slot;
  SampleSpec spec_;
  std::vector<Tensor> tensors_;
  std::vector<std::byte*> base_;  // of each field
  std::vector<int64_t> numel_;    // of one sample of each field
};

/// The place of one sample in a batch, to which read() writes. Valid only during that call of
/// read().
class LATHE_API Slot {
 public:
  Slot(const BatchBuffer& batch, int64_t row) : batch_(&batch), row_(row) {}

  int fields() const { return static_cast<int>(batch_->base_.size()); }

  /// The elements of a field of the sample, row-major. They are uninitialised; Dataset::read() must
  /// write all of them.
  /// throws: IndexError for a field that does not exist; DTypeError unless T is the field's dtype.
  template <class T>
  std::span<T> data(int field) const {
    check(field, dtype_of<T>);
    const int64_t count = batch_->numel_[static_cast<size_t>(field)];
    return {reinterpret_cast<T*>(batch_->base_[static_cast<size_t>(field)]) + row_ * count,
            static_cast<size_t>(count)};
  }

  /// The elements of a field as bytes.
  std::span<std::byte> bytes(int field) const;

  /// Sets a field that is a single number.
  template <class T>
  void set(int field, T value) const {
    data<T>(field)[0] = value;
  }

  /// Copies a CPU tensor into a field of the sample.
  /// throws: ShapeError, DTypeError, DeviceError unless `value` has the field's shape and dtype and
  /// is on the CPU.
  void copy(int field, const Tensor& value) const;

 private:
  void check(int field, DType asked) const;

  const BatchBuffer* batch_;
  int64_t row_;
};

/// A data set: samples with the numbers 0 to size() - 1. Several threads call read() at the same
/// time, so read() must not change the object.
class LATHE_API Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;

  /// The fields of a sample. They must be the same for every sample and in every call.
  virtual SampleSpec spec() const = 0;

  /// Writes sample i, 0 <= i < size(), completely into `out`. All random numbers must come from
  /// `key` = (seed, epoch, i).
  virtual void read(int64_t i, Key key, Slot out) const = 0;

  /// A hint that this thread will soon read sample i. A data set in memory may prefetch the
  /// sample's cache lines.
  virtual void prepare(int64_t /*i*/) const noexcept {}
};

/// A sample as tensors.
struct LATHE_API Example {
  Example(Tensor x_value, Tensor y_value) : x(std::move(x_value)), y(std::move(y_value)) {}
  Example(Tensor x_value, int64_t label);
  Tensor x, y;
};

/// A data set of the rows of tensors: sample i is {tensors[0][i], tensors[1][i], …}.
class LATHE_API TensorDataset final : public Dataset {
 public:
  /// Copies the tensors.
  /// throws: ValueError without tensors, ShapeError if they are 0-d or differ in dimension 0.
  explicit TensorDataset(const Tensors& tensors);
  TensorDataset(const Tensor& x, const Tensor& y) : TensorDataset(Tensors{x, y}) {}

  int64_t size() const override { return tensors_[0].dim(0); }
  SampleSpec spec() const override;
  void read(int64_t i, Key key, Slot out) const override;

 private:
  Tensors tensors_;
};

/// A data set whose samples a function makes. Several threads call the function at the same time.
class LATHE_API FunctionDataset final : public Dataset {
 public:
  FunctionDataset(int64_t size, std::function<Example(int64_t, Key)> make);

  int64_t size() const override { return size_; }
  SampleSpec spec() const override { return spec_; }
  /// throws: ShapeError, DTypeError if the sample's shape or dtype differs from that of sample 0.
  void read(int64_t i, Key key, Slot out) const override;

 private:
  int64_t size_;
  std::function<Example(int64_t, Key)> make_;
  SampleSpec spec_;  // of sample 0
};

/// Makes a FunctionDataset:
///   from_function(1000, [](int64_t i) { return Example{image(i), label(i)}; })
/// The function may also take (int64_t i, Key key). from_function() calls it once, for sample 0.
/// throws: ValueError if size < 1.
template <class F>
FunctionDataset from_function(int64_t size, F make) {
  if constexpr (std::is_invocable_v<F, int64_t, Key>) {
    return FunctionDataset(size, std::move(make));
  } else {
    return FunctionDataset(size,
                           [make = std::move(make)](int64_t i, Key) { return Example(make(i)); });
  }
}

}  // namespace lathe::data
