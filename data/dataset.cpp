// Batch buffers and slots, then the data sets over tensors and functions.
#include "lathe/data/dataset.h"

#include <cstring>

#include "lathe/core/copy.h"
#include "lathe/core/error.h"

namespace lathe::data {

BatchBuffer::BatchBuffer(const SampleSpec& spec, int64_t samples, bool pinned) : spec_(spec) {
  LATHE_CHECK(ValueError, !spec.fields.empty(), "BatchBuffer: a sample without fields");
  for (const Field& field : spec.fields) {
    Shape shape = field.shape;
    shape.insert(0, samples);
    const Tensor& tensor =
        tensors_.emplace_back(empty(shape, {.dtype = field.dtype, .pinned = pinned}));
    base_.push_back(static_cast<std::byte*>(tensor.raw_data()));
    numel_.push_back(numel_of(field.shape));
  }
}

std::span<std::byte> Slot::bytes(int field) const {
  LATHE_CHECK(IndexError, field >= 0 && field < fields(), "Slot: field ", field,
              " of a sample with ", fields(), " fields");
  const auto f = static_cast<size_t>(field);
  const int64_t bytes =
      batch_->numel_[f] * static_cast<int64_t>(size_of(batch_->spec_.fields[f].dtype));
  return {batch_->base_[f] + row_ * bytes, static_cast<size_t>(bytes)};
}

void Slot::check(int field, DType asked) const {
  LATHE_CHECK(IndexError, field >= 0 && field < fields(), "Slot: field ", field,
              " of a sample with ", fields(), " fields");
  const Field& f = batch_->spec_.fields[static_cast<size_t>(field)];
  LATHE_CHECK(DTypeError, f.dtype == asked, "Slot: field ", field, " (", f.name, ") is ", f.dtype,
              ", asked for as ", asked);
}

void Slot::copy(int field, const Tensor& value) const {
  check(field, value.dtype());
  const Field& f = batch_->spec_.fields[static_cast<size_t>(field)];
  LATHE_CHECK(ShapeError, value.shape() == f.shape, "Slot: field ", field, " (", f.name,
              ") has shape ", f.shape, ", the value is ", value);
  LATHE_CHECK(DeviceError, value.device().is_cpu(), "Slot: the value of field ", field, " (",
              f.name, ") must be on the CPU, it is ", value);
  copy_values(from_blob(bytes(field).data(), f.shape, f.dtype), value);
}

Example::Example(Tensor x_value, int64_t label)
    : x(std::move(x_value)), y(empty({}, {.dtype = kI64})) {
  *y.data<int64_t>() = label;
}

// --- TensorDataset -------------------------------------------------------------------------------

TensorDataset::TensorDataset(const Tensors& tensors) {
  LATHE_CHECK(ValueError, !tensors.empty(), "TensorDataset: no tensors");
  for (const Tensor& tensor : tensors) {
    LATHE_CHECK(ShapeError, tensor.ndim() > 0 && tensor.dim(0) == tensors[0].dim(0),
                "TensorDataset: tensors must have the same dimension 0 (", tensors[0], ", ", tensor,
                ")");
    copy_values(tensors_.emplace_back(empty(tensor.shape(), {.dtype = tensor.dtype()})), tensor);
  }
}

SampleSpec TensorDataset::spec() const {
  SampleSpec spec;
  for (size_t k = 0; k < tensors_.size(); ++k) {
    Shape shape = tensors_[k].shape();
    shape.erase(0);
    const std::string name = k == 0 ? "x" : k == 1 ? "y" : "field" + std::to_string(k);
    spec.fields.push_back({name, shape, tensors_[k].dtype()});
  }
  return spec;
}

void TensorDataset::read(int64_t i, Key, Slot out) const {
  for (int field = 0; field < out.fields(); ++field) {
    const auto to = out.bytes(field);
    if (to.empty()) continue;
    const auto* from =
        static_cast<const std::byte*>(tensors_[static_cast<size_t>(field)].raw_data());
    std::memcpy(to.data(), from + i * static_cast<int64_t>(to.size()), to.size());
  }
}

// --- FunctionDataset -----------------------------------------------------------------------------

FunctionDataset::FunctionDataset(int64_t size, std::function<Example(int64_t, Key)> make)
    : size_(size), make_(std::move(make)) {
  LATHE_CHECK(ValueError, size >= 1, "from_function: size must be positive, got ", size);
  const Example first = make_(0, Key{});
  spec_.fields = {{"x", first.x.shape(), first.x.dtype()}, {"y", first.y.shape(), first.y.dtype()}};
}

void FunctionDataset::read(int64_t i, Key key, Slot out) const {
  const Example example = make_(i, key);
  out.copy(0, example.x);
  out.copy(1, example.y);
}

}  // namespace lathe::data
