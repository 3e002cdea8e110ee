// A folder for files that nobody needs when the program is over.
#pragma once

#include <filesystem>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe {

/// Below the system's folder for temporary files, and only this user can enter it. Removed with all
/// that it holds at the end; those of processes that were killed before that, by the next one.
class LATHE_API ScratchFolder {
 public:
  /// Its name is lathe-WHAT-XXXXXX, of random letters; errors begin with WHAT.
  /// throws: FileError.
  explicit ScratchFolder(std::string_view what);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace lathe
