// Small files for the data tests, made here from the formats' definitions and not by the code under
// test.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lathe::data::testing {

/// A fresh directory that goes away with the object.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

void write_file(const std::filesystem::path& path, const std::string& bytes);
std::string read_file(const std::filesystem::path& path);
/// A file of `size` zero bytes that takes no room on disk.
void write_sparse_file(const std::filesystem::path& path, uint64_t size);
/// Overwrites bytes in the middle of a file.
void patch_file(const std::filesystem::path& path, uint64_t at, const std::string& bytes);
std::vector<std::string> names_in(const std::filesystem::path& directory);  // sorted

/// One gzip member with stored (uncompressed) blocks; RFC 1952, RFC 1951.
std::string gzip(const std::string& content);

/// An IDX file of unsigned bytes.
std::string idx(const std::vector<int64_t>& shape, const std::string& values);

struct TarEntry {
  std::string name, content;
  char type = '0';  // '0' file, '2' symbolic link, '5' directory
};
/// A ustar archive; POSIX.1-1988.
std::string tar(const std::vector<TarEntry>& entries);

/// A message of the exception that `f` throws, or "" if it throws none.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.message();
  }
  return "";
}

}  // namespace lathe::data::testing
