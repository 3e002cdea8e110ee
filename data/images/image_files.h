// ImageFiles: image files without labels, for prediction.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/dataset.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

struct ImageFilesOptions {
  Transform transform = {};  // must make images of one size: resize(256) alone does not
  // Takes only the first of three planes; grayscale() in the transform makes it the luma.
  bool one_channel = false;
  int64_t limit_pixels = 100'000'000;  // of an image; larger ones count as broken
};

/// JPEG and PNG files of any sizes, decoded as ImageFolder does when they are read. A sample is x =
/// the transformed image and y = the number of the file. A file that cannot be read is no error but
/// a sample of zeros with y = -1.
class LATHE_API ImageFiles final : public Dataset {
 public:
  /// throws: as Transform::output.
  ImageFiles(std::vector<std::string> files, const ImageFilesOptions& options);

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  SampleSpec spec() const override;
  void read(int64_t i, Key key, Slot out) const override;

  const std::string& path(int64_t i) const { return files_[static_cast<size_t>(i)]; }
  /// Why file i could not be read. Call once its sample has y = -1.
  const std::string& error(int64_t i) const { return errors_[static_cast<size_t>(i)]; }

 private:
  std::vector<std::string> files_;
  ImageFilesOptions options_;
  ImageSpec made_;                           // by the transform
  mutable std::vector<std::string> errors_;  // an element is written only by the read() of its file
};

}  // namespace lathe::data
