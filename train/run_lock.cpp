// RunLock, and the file by which a folder is claimed.
#include "lathe/train/run_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"

namespace lathe::train {

namespace fs = std::filesystem;

RunLock::RunLock(const fs::path& folder) {
  const fs::path log = folder / "log.txt";
  std::error_code unreadable;  // locking reports the reason
  const fs::file_status status = fs::status(log, unreadable);
  LATHE_CHECK(FileError, !fs::exists(status) || fs::is_regular_file(status), log.string(),
              ": not a regular file");
  try {
    try {
      folder_.emplace(folder.string(), 0);
    } catch (const LockHeldError&) {
      throw;
    } catch (const FileError&) {  // the file system locks no folders: the lock of log.txt is enough
    }
    log_.emplace(log.string(), 0);
  } catch (const LockHeldError&) {
    LATHE_FAIL(LockHeldError, folder.string(), ": another process is training in this folder");
  } catch (const FileError& e) {
    LATHE_FAIL(FileError, folder.string(), ": cannot be locked: ", e.message());
  }
}

void claim_run_folder(const fs::path& folder) {
  make_folders(folder);
  const std::string path = (folder / "log.txt").string();
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC;
  const int descriptor = open(path.c_str(), flags, 0666);  // for one process only
  LATHE_CHECK(LockHeldError, descriptor >= 0 || errno != EEXIST,
              "another process has just begun a run in ", folder.string());
  LATHE_CHECK(FileError, descriptor >= 0, path, ": cannot be made: ", std::strerror(errno));
  close(descriptor);
}

}  // namespace lathe::train
