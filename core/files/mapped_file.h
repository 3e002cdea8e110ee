// A file as memory: its bytes are read where they lie in the system's page cache, without a copy.
//
// Reading a page that a file no longer has makes the system end the process with SIGBUS. Here it is
// a FileError instead. The first MappedFile installs a handler for SIGBUS:
//   - If the thread is inside read() and the address is in the file that it reads, the handler puts
//     zeros in the place of this page and all pages behind it, and notes that the file was cut off.
//   - In any other case it does what the process did on SIGBUS before.
// After use, read() looks at the last byte. If that is not zero, the file still had it, and so it
// had all bytes before it. If it is zero, read() asks the system for the file's size. So a format
// whose records end in a byte that is not zero is read without any system call.
// A program that sets its own handler later must call the one that was installed before.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lathe/core/config.h"
#include "lathe/core/files/file.h"

namespace lathe {

/// A regular file, mapped read-only. Several threads may read at the same time.
///
/// Readers see what another process writes into the file. So replace files as AtomicFile does: a
/// mapping stays with the file that it opened. A file that is cut off and grows again before it is
/// read may be read as zeros; checksums detect this.
class LATHE_API MappedFile {
 public:
  /// throws: FileError with the path and the system's reason.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return file_.path(); }
  int64_t size() const { return file_.size(); }  // in bytes, when it was opened

  /// Calls use(bytes) with the `count` bytes from `offset` on, which are valid during that call. If
  /// the file was cut off, `use` sees zeros and read() then throws FileError: discard what `use`
  /// computed. `use` may not read another MappedFile, and may not let another thread touch the
  /// bytes: the handler protects only the thread that called read().
  /// throws: FileError if the file ends before the last byte, now or when it was opened, or if it
  /// cannot be read.
  template <class Use>
  void read(int64_t offset, int64_t count, Use&& use) const {
    check_range(offset, count);
    const Reading reading(*this);
    use(data_ + offset);
    if (count > 0) check_present(offset, count);
  }

  /// A hint: loads the cache lines of bytes that will soon be read.
  void prefetch(int64_t offset, int64_t count) const noexcept {
    constexpr int64_t kCacheLine = 64;
    for (int64_t k = 0; k < count; k += kCacheLine) __builtin_prefetch(data_ + offset + k);
  }

 private:
  /// While it lives, this thread reads that file, and the handler may change the file's pages.
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
