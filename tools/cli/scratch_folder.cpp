// ScratchFolder: mkdtemp, and the removal of everything.
#include "lathe/tools/cli/scratch_folder.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "lathe/core/error.h"

namespace lathe::cli {

ScratchFolder::ScratchFolder(std::string_view what) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  LATHE_CHECK(FileError, !error, what,
              ": there is no folder for temporary files (TMPDIR): ", error.message());
  std::string name = (parent / ("lathe-" + std::string(what) + "-XXXXXX")).string();
  LATHE_CHECK(FileError, mkdtemp(name.data()) != nullptr, name,
              ": cannot be made: ", std::generic_category().message(errno));
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace lathe::cli
