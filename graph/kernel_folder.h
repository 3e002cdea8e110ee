// A folder of kernels' code, whose files are executed: only one's own are read. kernel_cache.h says
// what is put there.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe::jit {

/// The code `name` of a folder. Nothing if there is none, or if a file is damaged, a symbolic link,
/// another user's, or one that others than its owner may write: then with a warning, once for each
/// file. Nothing also from a folder that others may write (keep_code()).
LATHE_API std::optional<std::string> kept_code(const std::string& folder, const std::string& name);

/// Puts code there, in place of what has this name; a symbolic link is replaced, not followed.
/// Makes the folder, with access for its owner only. It is used only if it belongs to the user
/// whose rights the program has, and if neither group nor others may write there. Otherwise nothing
/// is written, with a warning, once for each folder; the same where a system call fails. Of more
/// than 1,024 files the oldest go. `name`: 64 hexadecimal digits.
LATHE_API void keep_code(const std::string& folder, const std::string& name, std::string_view code);

}  // namespace lathe::jit
