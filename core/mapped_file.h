// A file as memory: its bytes are read from the system's page cache where they lie, without a copy.
//
// A page that a file no longer has cannot be read: the system ends the process with SIGBUS. Here it
// becomes a FileError. The first MappedFile installs a handler for SIGBUS, which
//   - in a thread that is inside read(), for an address of the file it reads: puts zeros in the
//     place of this page and of all behind it, and notes that the file was cut off;
//   - for anything else: does what was to be done before it was installed.
// After the bytes were used, read() looks at the last of them. If it is not zero the file still had
// it, and so all before it; if it is, the system is asked for the file's size. A format whose
// records end in a byte that is not zero is read without any system call.
// A program that sets a handler of its own later must call the one that it finds there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lathe/core/config.h"
#include "lathe/core/file.h"

namespace lathe {

/// A regular file, mapped read-only. Several threads may read at once.
///
/// What another process writes into the file shows; replace files as AtomicFile does instead: a
/// mapping keeps the file that it was opened on. A file that is cut off and grows again before it
/// is read may be read as zeros; checksums tell.
class LATHE_API MappedFile {
 public:
  /// throws: FileError with the path and the system's reason.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return file_.path(); }
  int64_t size() const { return file_.size(); }  // in bytes, when it was opened

  /// Calls use(bytes) with the `count` bytes from `offset` on, which are there during that call.
  /// Where the file was cut off it sees zeros, and what it made of them must be thrown away: that
  /// is the FileError. It may not read another MappedFile, and no other thread may touch the bytes
  /// for it: the handler helps the thread that called read().
  /// throws: FileError if the file ends before, now or when it was opened, or cannot be read.
  template <class Use>
  void read(int64_t offset, int64_t count, Use&& use) const {
    check_range(offset, count);
    const Reading reading(*this);
    use(data_ + offset);
    if (count > 0) check_present(offset, count);
  }

  /// Asks for the cache lines of bytes that are about to be read; a hint.
  void prefetch(int64_t offset, int64_t count) const noexcept {
    constexpr int64_t kCacheLine = 64;
    for (int64_t k = 0; k < count; k += kCacheLine) __builtin_prefetch(data_ + offset + k);
  }

 private:
  /// This thread reads that file, so the handler may change its pages.
  class Reading {
   public:
    explicit Reading(const MappedFile& file);
    ~Reading();
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
  };
  friend struct BusErrors;

  void check_range(int64_t offset, int64_t count) const;
  void check_present(int64_t offset, int64_t count) const;

  InputFile file_;
  const std::byte* data_ = nullptr;
  mutable std::atomic<bool> cut_off_{false};  // some pages are zeros that the file does not hold
};

}  // namespace lathe
