// Settings for convolutions on a GPU. A build without CUDA stores them but does not use them.
// Thread-safe; a change affects later calls. Deterministic mode and TF32 are in core/math_mode.h.
// How engines are searched: docs/conv-search.md.
#pragma once

#include <cstdint>
#include <string>

#include "lathe/core/config.h"
#include "lathe/ops/conv/search/conv_key.h"
#include "lathe/ops/conv/search/conv_limits.h"

namespace lathe::cudnn {

/// Off: convolutions on a GPU run in our own portable kernels instead of cuDNN. On by default.
LATHE_API void set_enabled(bool on) noexcept;
LATHE_API bool enabled() noexcept;

/// true: the first convolution with new shapes times cuDNN's engines and takes the fastest. This
/// makes the first step slower, and pays off if shapes repeat. false is the default. No effect in
/// deterministic mode.
LATHE_API void set_benchmark(bool on) noexcept;
LATHE_API bool benchmark() noexcept;

/// true: one kernel may compute a convolution together with the ops before or after it, where that
/// is faster (only f16 in NHWC with set_benchmark(true)). false: no such kernel is timed or run.
/// The default is true, unless the environment variable LATHE_CONV_FUSION is 0, false, off or no.
LATHE_API void set_fusion(bool on) noexcept;
LATHE_API bool fusion() noexcept;

/// Limits the workspace of one convolution to `bytes`; the default is 1 GiB. If less memory is
/// free, the convolution uses less.
/// throws: ValueError if negative.
LATHE_API void set_workspace_limit(int64_t bytes);
LATHE_API int64_t workspace_limit() noexcept;

/// Limits what a search for an engine may cost.
/// throws: ValueError if a limit is negative.
LATHE_API void set_search_limits(const ConvLimits& limits);
LATHE_API ConvLimits search_limits();

/// Sets the file that stores which engines were chosen for convolutions; "" means no file. The
/// default is the value of the environment variable LATHE_ALGO_CACHE; if that is not set, no file.
LATHE_API void set_algo_cache(const std::string& path);
LATHE_API std::string algo_cache();

}  // namespace lathe::cudnn

namespace lathe {

/// The key of an engine search, with mode, tf32 and workspace_limit_bytes from the settings, and
/// default values in its other fields.
LATHE_API ConvKey conv_key_of_settings();

}  // namespace lathe
