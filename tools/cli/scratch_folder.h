// A folder for files that nobody needs when the command is over.
#pragma once

#include <filesystem>
#include <string_view>

namespace lathe::cli {

/// Below the system's folder for temporary files; removed with all that it holds at the end.
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
};

}  // namespace lathe::cli
