// The temporary files that AtomicFile (file.h) writes beside its targets, FILE.tmpPID.N, where it
// could not remove them itself: a signal ended the process.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe {

/// Removes the temporary files of this process. Safe to call in a handler of a signal that ends
/// the process (signal-safety(7)): what is being written is lost, and no target changes.
LATHE_API void remove_temporary_files() noexcept;

/// Removes the temporary files in `folder` that ended processes have left, those of the target
/// `name` alone unless it is "". Each writer holds a lock (flock(2)) on its file, so that no file
/// of a living one is taken; where the file system has no locks, all stay.
/// throws: FileError if the folder cannot be read.
LATHE_API void sweep_temporary_files(const std::filesystem::path& folder,
                                     std::string_view name = "");

/// For AtomicFile, `owner`: remove_temporary_files() knows its file from the first call to the
/// second.
void remember_temporary_file(const void* owner, const std::string& path) noexcept;
void forget_temporary_file(const void* owner) noexcept;

}  // namespace lathe
