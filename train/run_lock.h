// RunLock: a run folder belongs to one training at a time.
#pragma once

#include <filesystem>
#include <optional>

#include "lathe/core/config.h"
#include "lathe/core/files/file_lock.h"

namespace lathe::train {

/// Locks a run folder against other processes that train in it. It locks the folder itself, which
/// cannot be deleted while files are in it, and log.txt, whose lock other machines see if the
/// folder is on a server (NFS).
class LATHE_API RunLock {
 public:
  /// throws: LockHeldError if another process trains in it; FileError if log.txt is no file, or
  /// cannot be locked.
  explicit RunLock(const std::filesystem::path& folder);

 private:
  std::optional<FileLock> folder_, log_;
};

/// Makes the folder, if need be, for a new run. If several processes want it, only one gets it.
/// throws: LockHeldError if another process has just begun a run there; FileError.
LATHE_API void claim_run_folder(const std::filesystem::path& folder);

}  // namespace lathe::train
