// FileLock: a lock between processes, for files that several processes read, change and write back.
#pragma once

#include <string>

#include "lathe/core/config.h"
#include "lathe/core/error.h"

namespace lathe {

/// Another process, or another FileLock of this one, holds the lock.
class LATHE_API LockHeldError : public FileError {
  using FileError::FileError;
};

/// Holds the lock of `path` against other processes and against other FileLocks of this process,
/// until it is destroyed or the process ends in any way. The lock file is created if it is absent;
/// it stays, and has no content. A folder can be locked too. Unlike a file, a folder that is not
/// empty cannot be deleted and created anew meanwhile. Over NFS the lock of a file holds against
/// other machines, and the lock of a folder on this machine only.
class LATHE_API FileLock {
 public:
  /// Waits for the lock, for at most `patience_ms`.
  /// throws: LockHeldError if it is still held then; FileError if it cannot be opened or locked.
  explicit FileLock(const std::string& path, int patience_ms = 5000);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace lathe
