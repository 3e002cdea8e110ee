// FileLock: one process at a time. For files that several processes read, change and write back.
#pragma once

#include <string>

#include "lathe/core/config.h"

namespace lathe {

/// Holds the lock that `path` stands for, against other processes and other FileLocks of this one,
/// until it is destroyed or the process ends in any way. The file itself holds nothing; it is made
/// if it is not there and stays.
class LATHE_API FileLock {
 public:
  /// Waits for it at most `patience_ms`.   throws: FileError if somebody else holds it for longer,
  /// or it cannot be made.
  explicit FileLock(const std::string& path, int patience_ms = 5000);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace lathe
