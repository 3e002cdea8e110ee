// What is at a path, and what is in a folder. Code that decides "there is none, so I make one" or
// "so I take the other" asks here: a path that cannot be looked at is an error, and never nothing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lathe/core/config.h"

namespace lathe {

enum class PathKind {
  kNothing,
  kFile,  // a regular file
  kFolder,
  kOther,   // a pipe, a device, a socket
  kNowhere  // a symbolic link to something that is not there
};

/// What is at `path`. Symbolic links are followed.
/// throws: FileError with the path and the system's reason if it cannot be looked at: no permission
/// for a folder above it, a disk that fails, links that form a loop.
LATHE_API PathKind path_kind(const std::filesystem::path& path);

/// True if there is anything at `path` (is_there), a file (is_file) or a folder (is_folder).
/// throws: FileError as path_kind() does, and for a link that leads nowhere: the storage that it
/// names may be missing for the moment only.
LATHE_API bool is_there(const std::filesystem::path& path);
LATHE_API bool is_file(const std::filesystem::path& path);
LATHE_API bool is_folder(const std::filesystem::path& path);

/// True if an entry of a folder is a folder itself. False for a link that leads nowhere and whose
/// name has an ending, as the names of files have.
/// throws: FileError as is_folder().
LATHE_API bool is_folder_entry(const std::filesystem::path& entry);

/// True if a and b name the same file or folder, for instance through links. False if one of them
/// does not exist.
/// throws: FileError if one of them cannot be looked at.
LATHE_API bool is_same_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// The path that remains when all symbolic links of its last part are followed. It need not exist.
/// throws: FileError if a link cannot be read, or they form a loop.
LATHE_API std::filesystem::path end_of_links(const std::filesystem::path& path);

/// The names of what is in a folder, sorted by their bytes.
/// throws: FileError, also if there is no such folder.
LATHE_API std::vector<std::string> names_in(const std::filesystem::path& folder);

/// "PATH: reason", without the words of the exception's own text.
LATHE_API std::string text_of(const std::filesystem::filesystem_error& error);

/// Makes the folder, and those above it, unless it is there.
/// throws: FileError.
LATHE_API void make_folders(const std::filesystem::path& folder);

/// Removes a file or an empty folder, if it is there.
/// throws: FileError.
LATHE_API void remove_path(const std::filesystem::path& path);

}  // namespace lathe
