// Settings for convolutions on a GPU. A build without CUDA keeps them, and nothing reads them.
// Thread-safe; a change affects later calls. Deterministic mode and TF32 are in core/math_mode.h.
// How engines are searched: docs/conv-search.md.
#pragma once

#include <cstdint>
#include <string>

#include "lathe/core/config.h"
#include "lathe/ops/conv/search/conv_key.h"
#include "lathe/ops/conv/search/conv_limits.h"

namespace lathe::cudnn {

/// Off: convolutions on a GPU run in our own portable kernels. On by default.
LATHE_API void set_enabled(bool on) noexcept;
LATHE_API bool enabled() noexcept;

/// On: the engines are timed for every new problem, and the fastest is taken. The first step is
/// slower, so it is worth it where shapes repeat. Off by default; deterministic mode overrides it.
LATHE_API void set_benchmark(bool on) noexcept;
LATHE_API bool benchmark() noexcept;

/// On: where it is faster, one kernel computes a convolution together with what stands before or
/// after it (f16, NHWC, with set_benchmark(true) only). Off: no such kernel is timed or run. At
/// first on, unless the environment variable LATHE_CONV_FUSION is 0, false, off or no.
LATHE_API void set_fusion(bool on) noexcept;
LATHE_API bool fusion() noexcept;

/// Bytes that one convolution may use as workspace, 1 GiB by default. Where less is free, less is
/// used.
/// throws: ValueError if negative.
LATHE_API void set_workspace_limit(int64_t bytes);
LATHE_API int64_t workspace_limit() noexcept;

/// How much a search may cost.
/// throws: ValueError if negative.
LATHE_API void set_search_limits(const ConvLimits& limits);
LATHE_API ConvLimits search_limits();

/// The file in which choices are kept; "" for none. At first it is the value of the environment
/// variable LATHE_ALGO_CACHE, or none if that is not set.
LATHE_API void set_algo_cache(const std::string& path);
LATHE_API std::string algo_cache();

}  // namespace lathe::cudnn

namespace lathe {

/// A new key with mode, tf32 and workspace_limit_bytes from the settings; the rest is as in
/// ConvKey{}.
LATHE_API ConvKey conv_key_of_settings();

}  // namespace lathe
