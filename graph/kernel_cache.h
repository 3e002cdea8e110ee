// The code of fused kernels, kept in a folder from one start of a program to the next. It is a
// cache: no state of the folder is an error, and none changes a result.
#pragma once

#include <string>

#include "lathe/core/config.h"

namespace lathe::jit {

/// The code that compile_kernels(text, architecture) makes, from the folder if it is there. What is
/// compiled is put there, each text in a file of its own, whose name is a SHA-256 of all that
/// decides about the code. A damaged file is replaced. A file that cannot be written is a warning.
/// Of more than 1,024 files the oldest go.
/// throws: what compile_kernels() does.
LATHE_API std::string kernel_code(const std::string& text, const std::string& architecture);

/// The folder, which the first file makes; "": none. At first it is that of LATHE_KERNEL_CACHE.
LATHE_API void set_kernel_cache(const std::string& folder);
LATHE_API std::string kernel_cache();

}  // namespace lathe::jit
