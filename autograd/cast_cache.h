// Casts of parameters that Autocast keeps, so that a parameter used twice is cast once.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::amp {

/// What keep_cast() kept for `t` and `dtype` on this thread, under the same grad mode and while t
/// still requires a gradient and holds the same values (storage and version); else undefined.
LATHE_API Tensor find_cast(const Tensor& t, DType dtype);

/// Keeps `cast`, made from `t`, until this thread's outermost Autocast scope ends, or some time
/// after the last handle to `t` is gone. Only what pays
/// is kept: a leaf that requires a gradient, f32, not a view, cast to a half type, outside
/// InferenceMode. The cast may take part in several graphs: a backward pass does not release it.
LATHE_API void keep_cast(const Tensor& t, const Tensor& cast);

/// Drops all that this thread keeps.
void drop_casts() noexcept;

}  // namespace lathe::amp
