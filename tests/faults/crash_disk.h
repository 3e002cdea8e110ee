// A disk that forgets. It stands in for libc's open, write, fsync, close, rename and unlink, notes
// what a program does to the files of one folder, and says what the folder may hold after a power
// cut at any moment of it.
//
// What it believes in is what POSIX promises, and no more:
//   - of a file, the bytes that were there at its last fsync; of those written later none, the
//     first half, all, or zeros in their place
//   - of names that were made, moved or removed, those before the last fsync of the folder; of
//     later ones the first none, one, two, … whether or not the files' bytes are there
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lathe::test {

/// Name → content.
using Folder = std::map<std::string, std::string>;

/// Notes from construction to destruction. One at a time; calls of any thread.
class CrashDisk {
 public:
  explicit CrashDisk(const std::filesystem::path& folder);
  ~CrashDisk();
  CrashDisk(const CrashDisk&) = delete;
  CrashDisk& operator=(const CrashDisk&) = delete;

  /// Calls noted so far.
  size_t calls() const;
  /// Everything that the folder may hold if the power goes after the first `calls` calls.
  std::vector<Folder> after_crash(size_t calls) const;

 private:
  struct Notes;
  friend struct Interposed;
  std::unique_ptr<Notes> notes_;
};

}  // namespace lathe::test
