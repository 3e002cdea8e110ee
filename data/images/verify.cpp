// verify_dataset() compares files with their checksums, verify_images() reads every image.
#include "lathe/data/images/verify.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/core/files/hash.h"
#include "lathe/core/thread_pool.h"
#include "lathe/data/images/byte_stream.h"

namespace lathe::data {
namespace {

constexpr size_t kReadAtOnce = size_t{1} << 20;

/// What is wrong with the file's content; empty if it is right.
std::string difference(const DatasetFile& file, const std::filesystem::path& path) {
  const auto stream = open_stream(path);
  std::vector<char> buffer(kReadAtOnce);
  Md5 md5;
  int64_t bytes = 0;
  for (size_t count = kReadAtOnce; count == kReadAtOnce && bytes <= file.bytes;) {
    count = stream->read(buffer.data(), kReadAtOnce);
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

/// The result for one image: its line in the hash, or why it is broken.
struct ImageCheck {
  std::string line, why_broken;
};

ImageCheck check_image(const ImageDataset& images, int64_t i) {
  thread_local std::vector<uint8_t> pixels;
  try {
    const auto [spec, label] = images.load(i, pixels);
    Sha256 hash;
    hash.update(pixels.data(), pixels.size());
    return {
        concat(hash.hex(), " ", spec.channels, "x", spec.height, "x", spec.width, " ", label, "\n"),
        ""};
  } catch (const DataError& error) {
    return {"", error.message()};
  } catch (const FileError& error) {
    return {"", error.message()};
  }
}

}  // namespace

ImagesReport verify_images(const ImageDataset& images,
                           const std::function<void(int64_t done)>& progress) {
  constexpr int64_t kImagesAtATime = 256;
  const auto classes = static_cast<size_t>(images.classes());
  ImagesReport report{std::vector<int64_t>(classes), std::vector<int64_t>(classes), {}, {}};
  std::vector<ImageCheck> checks(kImagesAtATime);
  Sha256 hash;
  for (int64_t first = 0; first < images.size(); first += kImagesAtATime) {
    const int64_t count = std::min(kImagesAtATime, images.size() - first);
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        checks[static_cast<size_t>(k)] = check_image(images, first + k);
    });
    for (int64_t k = 0; k < count; ++k) {
      const ImageCheck& check = checks[static_cast<size_t>(k)];
      const auto label = static_cast<size_t>(images.label(first + k));
      ++(check.why_broken.empty() ? report.whole : report.broken)[label];
      if (!check.why_broken.empty()) report.messages.push_back(check.why_broken);
      hash.update(check.line);
    }
    if (progress) progress(first + count);
  }
  report.sha256 = hash.hex();
  return report;
}

std::vector<FileReport> verify_dataset(const DatasetSource& source,
                                       const std::filesystem::path& directory) {
  std::vector<FileReport> reports;
  for (const auto& file : source.files) reports.push_back(report_on(file, directory));
  return reports;
}

}  // namespace lathe::data
