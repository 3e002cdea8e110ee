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

/// Takes the lock of an open file, and does not wait for it. → false if another one holds it. Where
/// the file system has no locks (some network and FUSE file systems), this warns once per process
/// and returns true: the caller goes on as if it were alone.
/// throws: FileError with `path` and the system's reason.
LATHE_API bool try_lock(int descriptor, const std::string& path);

/// Holds the lock of `path` against other processes and against other FileLocks of this process,
/// until it is destroyed or the process ends in any way. The lock file is created if it is absent;
/// it stays, and has no content. A folder can be locked too. Unlike a file, a folder that is not
/// empty cannot be deleted and created anew meanwhile. Over NFS the lock of a file holds against
/// other machines, and the lock of a folder on this machine only. On a file system without locks
/// nothing is held: see try_lock().
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
