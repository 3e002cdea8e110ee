// Dense CPU copies, byte swapping, the check of bools, and views of a file's storages.
#include "lathe/core/formats/tensor_bytes.h"

#include <algorithm>
#include <cstring>

#include "lathe/core/checked_size.h"
#include "lathe/core/copy.h"
#include "lathe/core/strided_extent.h"

namespace lathe {

Tensor dense_on_cpu(const Tensor& t) {
  if (t.device().is_cpu() && t.is_contiguous()) return t;
  Tensor out = empty(t.shape(), {.dtype = t.dtype()});
  copy_values(out, t);
  return out;
}

std::string_view bytes_of(const Tensor& dense) {
  return {static_cast<const char*>(dense.raw_data()), static_cast<size_t>(dense.bytes())};
}

namespace {

template <class T, class Swap>
void swap_all(void* values, int64_t count, Swap swap) {
  auto* p = static_cast<char*>(values);
  for (int64_t i = 0; i < count; ++i, p += sizeof(T)) {
    T value;
    std::memcpy(&value, p, sizeof(T));
    value = swap(value);
    std::memcpy(p, &value, sizeof(T));
  }
}

}  // namespace

void swap_bytes(void* values, int64_t count, size_t size) {
  if (size == 2) swap_all<uint16_t>(values, count, [](uint16_t v) { return __builtin_bswap16(v); });
  if (size == 4) swap_all<uint32_t>(values, count, [](uint32_t v) { return __builtin_bswap32(v); });
  if (size == 8) swap_all<uint64_t>(values, count, [](uint64_t v) { return __builtin_bswap64(v); });
}

void check_bools(const void* values, int64_t count, std::string_view what) {
  const auto* bytes = static_cast<const unsigned char*>(values);
  for (int64_t i = 0; i < count; ++i) {
    LATHE_CHECK(DataError, bytes[i] <= 1, what, ": holds the byte ", bytes[i], " as a bool");
  }
}

Tensor view_of_storage(const Tensor& storage, int64_t offset, const Shape& shape,
                       const Strides& strides, const std::string& what) {
  LATHE_CHECK(DataError, shape.size() == strides.size(), what, " has ", shape.size(), " sizes but ",
              strides.size(), " strides");
  CheckedSize elements = 1;
  bool is_empty = false;
  for (const int64_t size : shape) {
    elements *= std::max<int64_t>(size, 1);
    is_empty |= size == 0;
  }
  const CheckedSize bytes = elements * size_of(storage.dtype());
  bytes.value_or_throw<DataError>(what, ": the size of ", shape, " overflows");
  if (is_empty) return empty(shape, {.dtype = storage.dtype()});
  const CheckedSize end = strided_extent(shape, strides) + offset;
  LATHE_CHECK(
      DataError,
      offset >= 0 && !end.overflowed() && end.value_or_throw<DataError>("") <= storage.numel(),
      what, ": ", storage.dtype(), shape, " with strides ", strides, " from element ", offset,
      " lies outside its storage of ", storage.numel(), " elements");
  return alias(storage, shape, strides, offset);
}

}  // namespace lathe
