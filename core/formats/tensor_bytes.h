// The bytes of tensors as files hold them. Internal to the file formats of core/.
#pragma once

#include <cstdint>
#include <string_view>

#include "lathe/core/tensor.h"

namespace lathe {

/// `t` on the CPU and row-major: itself where it is that already, else a copy.
Tensor dense_on_cpu(const Tensor& t);

/// The bytes of a dense CPU tensor, in the order of its memory.
std::string_view bytes_of(const Tensor& dense);

/// Reverses the bytes of each element in place: big-endian ↔ little-endian. `count` elements of
/// `size` 1, 2, 4 or 8 bytes.
void swap_bytes(void* values, int64_t count, size_t size);

/// Checks values that came from a file: a byte other than 0 and 1 would not be a C++ bool.
/// throws: DataError beginning with `what`.
void check_bools(const void* values, int64_t count, std::string_view what);

}  // namespace lathe
