// Switches for the whole process: how exactly, and how repeatably, a GPU computes. Thread-safe; a
// change applies to the calls after it. The CPU's own switch is set_conv_exact in ops/conv2d.h.
#pragma once

#include "lathe/core/config.h"

namespace lathe {

/// Deterministic: the same call gives the same bits in every run with the same device, library
/// versions and settings. Convolutions use only engines that promise this, and choose among them
/// without timing. An op without a deterministic form throws. Off by default.
LATHE_API void set_deterministic(bool on) noexcept;
LATHE_API bool deterministic() noexcept;

/// TF32: products of f32 matrices and convolutions may round their factors to 10 bits of mantissa,
/// which makes tensor cores several times as fast. Sums stay f32. Off by default.
LATHE_API void set_tf32(bool on) noexcept;
LATHE_API bool tf32() noexcept;

}  // namespace lathe
