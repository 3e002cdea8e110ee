// A folder for files that nobody needs when the command is over.
#pragma once

#include <filesystem>
#include <string_view>

namespace lathe::cli {

/// Below the system's folder for temporary files, and only this user can enter it. Removed with all
/// that it holds at the end; those of processes that were killed before that, by the next one.
class ScratchFolder {
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

}  // namespace lathe::cli
