// Batch and read_batch(): reading samples into a buffer, and errors that name the sample.
#include "lathe/data/batch.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <new>

#include "lathe/core/copy.h"
#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"

namespace lathe::data {
namespace {

Tensor on_device(const Tensor& tensor, Device device) {
  if (!tensor.defined() || tensor.device() == device) return tensor;
  Tensor copy = empty(tensor.shape(), {.dtype = tensor.dtype(), .device = device});
  copy_values(copy, tensor);
  return copy;
}

}  // namespace

void rethrow_with_text(const std::string& place) {
  try {
    throw;
  } catch (const OutOfMemoryError& error) {
    std::throw_with_nested(OutOfMemoryError(place + error.message()));
  } catch (const FileError& error) {
    std::throw_with_nested(FileError(place + error.message()));
  } catch (const Error& error) {
    std::throw_with_nested(DataError(place + error.message()));
  } catch (const std::bad_alloc&) {
    std::throw_with_nested(OutOfMemoryError(place + "out of memory"));
  } catch (const std::filesystem::filesystem_error& error) {
    std::throw_with_nested(FileError(place + text_of(error)));
  } catch (const std::exception& error) {
    std::throw_with_nested(DataError(place + error.what()));
  } catch (...) {
    std::throw_with_nested(DataError(place + "an exception that is not a std::exception"));
  }
}

void rethrow_with_index(int64_t index) { rethrow_with_text(concat("sample ", index, ": ")); }

Batch Batch::to(Device device) const {
  Batch out{on_device(x, device), on_device(y, device), {}, indices};
  for (const Tensor& tensor : more) out.more.push_back(on_device(tensor, device));
  return out;
}

bool read_batch(const Dataset& dataset, const BatchBuffer& buffer, std::span<const int64_t> indices,
                uint64_t seed, int64_t epoch, FunctionRef<bool()> stop, Batch& out) {
  for (size_t row = 0; row < indices.size(); ++row) {
    if (stop()) return false;
    const int64_t index = indices[row];
    if (row + 1 < indices.size()) dataset.prepare(indices[row + 1]);
    try {
      dataset.read(index, Key{seed, epoch, index}, Slot(buffer, static_cast<int64_t>(row)));
    } catch (...) {
      rethrow_with_index(index);
    }
  }
  const Tensors& tensors = buffer.tensors();
  out.x = tensors[0];
  out.y = tensors.size() > 1 ? tensors[1] : Tensor();
  out.more.assign(
      tensors.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(tensors.size(), 2)),
      tensors.end());
  out.indices.assign(indices.begin(), indices.end());
  return true;
}

Batch read_batch(const Dataset& dataset, std::span<const int64_t> indices, uint64_t seed,
                 int64_t epoch) {
  const int64_t size = dataset.size();
  for (const int64_t i : indices)
    LATHE_CHECK(IndexError, i >= 0 && i < size, "read_batch: index ", i, " of a data set of ", size,
                " samples");
  Batch batch;
  const BatchBuffer buffer(dataset.spec(), static_cast<int64_t>(indices.size()));
  read_batch(
      dataset, buffer, indices, seed, epoch, [] { return false; }, batch);
  return batch;
}

}  // namespace lathe::data
