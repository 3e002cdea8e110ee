// What a program may say about convolutions on a GPU. In a build without CUDA the settings are kept
// and nothing asks for them. Thread-safe; a change counts for the calls after it.
// Deterministic mode and TF32 are in core/math_mode.h. How engines are searched: README.md.
#pragma once

#include <cstdint>
#include <string>

#include "lathe/core/config.h"
#include "lathe/ops/conv_search/conv_key.h"
#include "lathe/ops/conv_search/conv_trials.h"

namespace lathe::cudnn {

/// Off: convolutions on a GPU take the library's own plain kernels. On by default.
LATHE_API void set_enabled(bool on) noexcept;
LATHE_API bool enabled() noexcept;

/// Times the engines for every new problem and takes the fastest. Worth it where shapes repeat: the
/// first step is slower. Off by default; deterministic mode overrides it.
LATHE_API void set_benchmark(bool on) noexcept;
LATHE_API bool benchmark() noexcept;

/// Bytes that one convolution may use as workspace, 1 GiB by default. Less is used where less is
/// free.   throws: ValueError if negative.
LATHE_API void set_workspace_limit(int64_t bytes);
LATHE_API int64_t workspace_limit() noexcept;

/// What a search may cost.   throws: ValueError if negative.
LATHE_API void set_search_limits(const ConvLimits& limits);
LATHE_API ConvLimits search_limits();

/// The file that keeps what searches found; "" for none. At first the environment variable
/// LATHE_ALGO_CACHE, none if it is not set.
LATHE_API void set_algo_cache(const std::string& path);
LATHE_API std::string algo_cache();

}  // namespace lathe::cudnn

namespace lathe {

/// What the settings say of a new key: mode, tf32 and workspace_limit_bytes are filled in, the rest
/// is as in ConvKey{}.
LATHE_API ConvKey conv_key_of_settings();

}  // namespace lathe
