// The bytes of tensors as they are in files. Internal to core/formats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lathe/core/tensor.h"

namespace lathe {

/// `t` on the CPU and row-major: t itself if it is so already, else a copy.
Tensor dense_on_cpu(const Tensor& t);

/// The bytes of a dense CPU tensor, in the order of its memory.
std::string_view bytes_of(const Tensor& dense);

/// Reverses the bytes of each element in place: big-endian ↔ little-endian. `count` elements of
/// `size` 1, 2, 4 or 8 bytes.
void swap_bytes(void* values, int64_t count, size_t size);

/// Checks values that came from a file: a byte other than 0 and 1 is not a C++ bool.
/// throws: DataError that begins with `what`.
void check_bools(const void* values, int64_t count, std::string_view what);

/// A tensor that a file describes as a part of a storage, which is 1-d.
/// throws: DataError that begins with `what` if a size overflows or an element lies outside.
Tensor view_of_storage(const Tensor& storage, int64_t offset, const Shape& shape,
                       const Strides& strides, const std::string& what);

}  // namespace lathe
