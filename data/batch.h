// A batch: the tensors of several samples, stacked. Made by read_batch() and by the loaders.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/function_ref.h"
#include "lathe/core/tensor.h"
#include "lathe/data/dataset.h"

namespace lathe::data {

/// `auto [x, y] = batch` and `auto& [x, y] = batch` bind the first two fields.
struct LATHE_API Batch {
  Tensor x, y;   // fields 0 and 1: [N, …]; y is undefined if a sample has one field
  Tensors more;  // fields 2 and on
  std::vector<int64_t> indices;  // numbers of the samples in the data set

  int64_t size() const { return static_cast<int64_t>(indices.size()); }
  /// The batch with every tensor on `device`.
  Batch to(Device device) const;
};

template <size_t I>
Tensor& get(Batch& batch) {
  return I == 0 ? batch.x : batch.y;
}
template <size_t I>
const Tensor& get(const Batch& batch) {
  return I == 0 ? batch.x : batch.y;
}
template <size_t I>
Tensor&& get(Batch&& batch) {
  return std::move(I == 0 ? batch.x : batch.y);
}
template <size_t I>
const Tensor&& get(const Batch&& batch) {
  return std::move(I == 0 ? batch.x : batch.y);
}

/// Reads the samples `indices` one after another, with the random numbers of (seed, epoch).
/// throws: IndexError for an index that is out of range. If read() throws: an error that names the
/// sample's index and has the message of read()'s exception. The exception is nested in the error
/// (std::rethrow_if_nested). The error is a FileError or an OutOfMemoryError if the exception is
/// one, otherwise a DataError.
LATHE_API Batch read_batch(const Dataset& dataset, std::span<const int64_t> indices,
                           uint64_t seed = 0, int64_t epoch = 0);

/// Like read_batch() without a buffer, but reads into `buffer`. Gives up between two samples if
/// `stop` returns true.
/// → whether the batch is complete
bool read_batch(const Dataset& dataset, const BatchBuffer& buffer, std::span<const int64_t> indices,
                uint64_t seed, int64_t epoch, FunctionRef<bool()> stop, Batch& out);

/// Inside a catch block: throws an error that names sample `index`, with the caught one nested in
/// it.
[[noreturn]] LATHE_API void rethrow_with_index(int64_t index);
/// Like rethrow_with_index(), with `place` before the message.
[[noreturn]] void rethrow_with_text(const std::string& place);

}  // namespace lathe::data

// Structured bindings see two parts, however many fields a batch has.
template <>
struct std::tuple_size<lathe::data::Batch> : std::integral_constant<size_t, 2> {};
template <size_t I>
struct std::tuple_element<I, lathe::data::Batch> {
  using type = lathe::Tensor;
};
