// FileLock: one process at a time. For files that several processes read, change and write back.
#pragma once

#include <string>

#include "lathe/core/config.h"
#include "lathe/core/error.h"

namespace lathe {

/// Somebody else holds the lock.
class LATHE_API LockHeldError : public FileError {
  using FileError::FileError;
};

/// Holds the lock that `path` stands for, against other processes and other FileLocks of this one,
/// until it is destroyed or the process ends in any way. The file itself holds nothing; it is made
/// if it is not there and stays. A folder can be locked, too, and unlike a file it cannot be
/// deleted and made anew as long as there is anything in it. Over NFS the lock of a file holds
/// against other machines, that of a folder only on this one.
class LATHE_API FileLock {
 public:
  /// Waits for it at most `patience_ms`.   throws: LockHeldError if somebody else holds it for
  /// longer; FileError if it cannot be made.
  explicit FileLock(const std::string& path, int patience_ms = 5000);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace lathe
