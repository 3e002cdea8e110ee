// Files: whole reads with a limit, reads at an offset, and writes that either replace the target
// completely or leave it as it was. Every step can be made to fail (file_faults), so the tests
// cover what is promised here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lathe/core/config.h"
#include "lathe/core/fault.h"

namespace lathe {

/// A regular file, open for reading. Several threads may read at the same time.
class LATHE_API InputFile {
 public:
  /// throws: FileError with the path and the system's reason.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // in bytes, when it was opened
  /// In bytes, now.
  /// throws: FileError.
  int64_t current_size() const;

  /// Reads exactly `bytes` bytes from `offset` on.
  /// throws: FileError, also if the file ends before that.
  void read(void* to, int64_t bytes, int64_t offset) const;

 private:
  friend class MappedFile;
  std::string path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

/// The content of a file of any kind, also of a pipe.
/// throws: FileError, also if the content has more than `limit_bytes`.
LATHE_API std::string read_file(const std::string& path, int64_t limit_bytes);

/// A file that is written beside its target and moved over it by commit(): temporary file in the
/// same directory, write, fsync, rename, fsync of the directory. At any moment the target is the
/// complete old or the complete new file. A new file keeps the permissions of the one it replaces.
/// A symbolic link stays a link: the file that it names is replaced or created.
class LATHE_API AtomicFile {
 public:
  /// throws: FileError, also if the target exists and is not a regular file, or if its symbolic
  /// links form a loop.
  explicit AtomicFile(const std::string& path);

  /// Without commit(): removes the temporary file and leaves the target as it was.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. A file over the size limit is an error, not the signal SIGXFSZ.
  /// throws: FileError; the temporary file is then removed and the target unchanged. StateError
  /// after commit() or an error.
  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Waits until what was written so far is on the disk: for callers that do other work, or may
  /// still give up, before commit().
  /// throws: as write().
  void sync();

  /// Makes the new content the target's. Call it once, last.
  /// throws: StateError after commit() or an error. FileError; the target is then the old file. If
  /// only the last step, fsync of the directory, failed, the target is the new file, but a power
  /// cut may bring the old one back.
  void commit();

 private:
  void discard() noexcept;

  std::string path_, temporary_;
  int descriptor_ = -1;
};

/// Call it after renaming a file to `path`: when it returns, a power cut cannot undo the renaming.
/// throws: FileError.
LATHE_API void sync_directory_of(const std::string& path);

/// AtomicFile in one call.
LATHE_API void write_file_atomic(const std::string& path, std::string_view content);

/// Where the system calls of this file can be made to fail, each with a typical reason.
struct FileFaults {
  FaultPoint open, read, write, sync, rename;
  FaultPoint interrupted;  // reads and writes: EINTR, to be tried again
  FaultPoint partial;      // reads and writes: one byte only, to be continued
};
LATHE_API FileFaults& file_faults();

}  // namespace lathe
