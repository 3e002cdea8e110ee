// Checks whether a data set on this machine is complete: the files of a known set are compared with
// their official checksums; of any other set every image is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/images/image_datasets.h"
#include "lathe/data/images/published_datasets.h"

namespace lathe::data {

enum class FileState { kOk, kDiffers, kMissing };

struct FileReport {
  std::string name;
  FileState state;
  std::filesystem::path path;  // empty if missing
  std::string detail;          // what differs or why it cannot be read; empty if ok
};

/// Reads every file of the set in `directory` (x or x.gz) and compares size and MD5 of its content
/// with the official ones. Bad content is reported and never thrown.
LATHE_API std::vector<FileReport> verify_dataset(const DatasetSource& source,
                                                 const std::filesystem::path& directory);

struct ImagesReport {
  std::vector<int64_t> whole, broken;  // images per class
  std::vector<std::string> messages;   // why each broken one is broken, in order
  /// SHA-256 over the lines "<SHA-256 of the bytes> <C>x<H>x<W> <label>\n" of the whole images, in
  /// order. It is the same for a folder and for a file packed from it.
  std::string sha256;

  int64_t broken_images() const { return static_cast<int64_t>(messages.size()); }
};

/// Reads every image as it is before the transform, in parallel. Bad images are reported and never
/// thrown. `progress` is called now and then.
LATHE_API ImagesReport verify_images(const ImageDataset& images,
                                     const std::function<void(int64_t done)>& progress = {});

}  // namespace lathe::data
