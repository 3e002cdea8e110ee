// The code of fused kernels, kept in a folder from one start of a program to the next. It is a
// cache: no state of the folder is an error. Code from the folder is executed with the program's
// rights and data. So it is used only if it belongs to the user and nobody else may write there.
#pragma once

#include <functional>
#include <string>

#include "lathe/core/config.h"

namespace lathe::jit {

/// The code that compile_kernels(text, architecture) makes, from the folder if it is there. What is
/// compiled is put there, each text in a file of its own, whose name is a SHA-256 of all that
/// decides about the code. A damaged file is replaced. A folder or file that cannot be used is a
/// warning (kernel_folder.h). Of more than 1,024 files the oldest go.
/// throws: what compile_kernels() does.
LATHE_API std::string kernel_code(const std::string& text, const std::string& architecture);

/// Gives that code to `load`. If `load` throws a CudaError for code from the folder, as a driver
/// does that is older than the code, the text is compiled again, with a warning. The new code takes
/// the file's place and is given to `load`.
/// throws: what compile_kernels() and `load` do.
LATHE_API void load_kernel_code(const std::string& text, const std::string& architecture,
                                const std::function<void(const std::string& code)>& load);

/// The folder, which the first file makes, with access for its owner only; "": none. At first it is
/// that of LATHE_KERNEL_CACHE, unless the program runs with the rights of another user.
LATHE_API void set_kernel_cache(const std::string& folder);
LATHE_API std::string kernel_cache();

}  // namespace lathe::jit
