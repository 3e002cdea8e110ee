// Switches for the whole process that decide how exactly, and how repeatably, a GPU computes.
// Thread-safe; a change counts for the calls after it. The CPU's own switch is ops/conv2d.h's
// set_conv_exact.
#pragma once

#include "lathe/core/config.h"

namespace lathe {

/// Deterministic: the same call gives the same bits in every run on the same device, library
/// versions and settings. Convolutions take no engine that promises less and time none; an op that
/// has no deterministic form throws. Off by default.
LATHE_API void set_deterministic(bool on) noexcept;
LATHE_API bool deterministic() noexcept;

/// TF32: products of f32 matrices and convolutions may round their factors to 10 bits of mantissa,
/// which tensor cores multiply several times as fast. Sums stay f32. Off by default.
LATHE_API void set_tf32(bool on) noexcept;
LATHE_API bool tf32() noexcept;

}  // namespace lathe
