// Casts of parameters that Autocast keeps, so that a parameter used twice is cast once.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe::amp {

/// What keep_cast() kept for `t` and `dtype` on this thread. Undefined unless the grad mode is the
/// same, and t still requires a gradient and holds the same values (storage and version).
LATHE_API Tensor find_cast(const Tensor& t, DType dtype);

/// Keeps `cast`, made from `t`, until this thread's outermost Autocast scope ends; earlier, at some
/// later keep_cast(), if the last other handle to `t` is gone. Keeps only the casts that are worth
/// it: `t` is an f32 leaf that requires a gradient and is no view, the cast is to a half type, and
/// InferenceMode is off. Several graphs may use one cast: a backward pass does not release it.
LATHE_API void keep_cast(const Tensor& t, const Tensor& cast);

/// Drops all that this thread keeps, and then calls what after_drop() was given.
void drop_casts() noexcept;

/// For the one cache of what is made from casts (ops/conv/cpu/packed_weights_cpu.h), which can free
/// that of casts that are gone.
void after_drop(void (*trim)() noexcept) noexcept;

}  // namespace lathe::amp
