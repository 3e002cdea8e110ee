// The first NaN or infinity of a tensor.
#pragma once

#include <optional>

#include "lathe/core/tensor.h"

namespace lathe::debug {

struct BadValue {
  Dims index;  // one number for each dimension
  double value = 0;
};

/// The first value of t in row-major order that is NaN, or, with `infinity`, infinite. None for
/// integers. Reads memory of a GPU through a copy on the host, and so waits for it.
/// throws: OutOfMemoryError, and what a wait for the GPU throws.
LATHE_API std::optional<BadValue> first_bad_value(const Tensor& t, bool infinity);

/// The value at a row-major position.
LATHE_API double value_at(const Tensor& t, const Dims& index);

}  // namespace lathe::debug
