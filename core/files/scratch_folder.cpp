// ScratchFolder: mkdtemp, and the removal of everything.
#include "lathe/core/files/scratch_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"

namespace lathe {

namespace {

constexpr std::string_view kLetters = "XXXXXX";  // of mkdtemp

namespace fs = std::filesystem;

/// A lock on a folder, which ends with the process.
/// → a descriptor, or -1 with errno: ENOENT also for a folder that was removed before the lock
int lock_folder(const fs::path& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return -1;
  const bool has_lock = ::flock(folder, LOCK_EX | LOCK_NB) == 0;
  struct stat info {};
  const bool is_gone = has_lock && ::fstat(folder, &info) == 0 && info.st_nlink == 0;
  if (has_lock && !is_gone) return folder;
  const int reason = is_gone ? ENOENT : errno;
  ::close(folder);
  errno = reason;
  return -1;
}

/// Removes the folders of this kind that ended processes have left, as far as it can.
void sweep(const fs::path& parent, const std::string& begin) try {
  for (const std::string& name : names_in(parent)) {
    if (!name.starts_with(begin) || name.size() != begin.size() + kLetters.size()) continue;
    const int lock = lock_folder(parent / name);
    if (lock < 0) continue;
    std::error_code ignored;  // the next one tries again
    fs::remove_all(parent / name, ignored);
    ::close(lock);
  }
} catch (const FileError&) {  // a folder of files that others may not list
}

}  // namespace

ScratchFolder::ScratchFolder(std::string_view what) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
  LATHE_CHECK(FileError, !error, what,
              ": there is no folder for temporary files (TMPDIR): ", error.message());
  const std::string begin = "lathe-" + std::string(what) + "-";
  sweep(parent, begin);
  for (bool swept = true; swept;) {  // by another process, before this one had the lock
    std::string name = (parent / (begin + std::string(kLetters))).string();
    LATHE_CHECK(FileError, mkdtemp(name.data()) != nullptr, name,
                ": cannot be made: ", std::generic_category().message(errno));
    path_ = name;
    lock_ = lock_folder(path_);
    swept = lock_ < 0 && (errno == EWOULDBLOCK || errno == ENOENT);
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace lathe
