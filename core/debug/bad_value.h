// The first NaN or infinity of a tensor.
#pragma once

#include <optional>

#include "lathe/core/tensor.h"

namespace lathe::debug {

/// False if t's values cannot be copied to the host now, because the current stream of its GPU is
/// being captured into a CUDA graph.
LATHE_API bool can_be_read(const Tensor& t);

struct BadValue {
  Dims index;  // one number for each dimension
  double value = 0;
};

/// The first value of t in row-major order that is NaN, or, with `infinity`, infinite. None for
/// integers. Reads memory of a GPU through a copy on the host, and so waits for it.
/// throws: OutOfMemoryError, and what a wait for the GPU throws.
LATHE_API std::optional<BadValue> first_bad_value(const Tensor& t, bool infinity);

/// The value of t at `index`, one number for each dimension. Waits as first_bad_value() does.
LATHE_API double value_at(const Tensor& t, const Dims& index);

}  // namespace lathe::debug
