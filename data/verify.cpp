#include "lathe/data/verify.h"

#include "lathe/core/error.h"
#include "lathe/core/hash.h"
#include "lathe/data/byte_stream.h"

namespace lathe::data {
namespace {

constexpr size_t kChunk = size_t{1} << 20;

/// What is wrong with the file's content; empty if nothing is.
std::string difference(const DatasetFile& file, const std::filesystem::path& path) {
  const auto stream = open_stream(path);
  std::vector<char> buffer(kChunk);
  Md5 md5;
  int64_t bytes = 0;
  for (size_t count = kChunk; count == kChunk && bytes <= file.bytes;) {
    count = stream->read(buffer.data(), kChunk);
    md5.update(buffer.data(), count);
    bytes += static_cast<int64_t>(count);
  }
  if (bytes > file.bytes) return concat("has more than the ", file.bytes, " bytes published");
  if (bytes < file.bytes) return concat("has ", bytes, " bytes instead of ", file.bytes);
  const std::string hex = md5.hex();
  return hex == file.md5 ? "" : concat("MD5 is ", hex, " instead of ", file.md5);
}

FileReport report_on(const DatasetFile& file, const std::filesystem::path& directory) {
  const auto path = find_file(directory, file.name);
  if (!path) return {file.name, FileState::kMissing, {}, "missing in " + directory.string()};
  std::string detail;
  try {
    detail = difference(file, *path);
  } catch (const Error& error) {
    detail = error.message();
  }
  return {file.name, detail.empty() ? FileState::kOk : FileState::kDiffers, *path, detail};
}

}  // namespace

std::vector<FileReport> verify_dataset(const DatasetSource& source,
                                       const std::filesystem::path& directory) {
  std::vector<FileReport> reports;
  for (const auto& file : source.files) reports.push_back(report_on(file, directory));
  return reports;
}

}  // namespace lathe::data
