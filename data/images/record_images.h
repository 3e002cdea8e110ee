// RecordImages: the data sets of StoredImages, read image by image from their mapped files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/files/mapped_file.h"
#include "lathe/data/images/image_datasets.h"

namespace lathe::data {

/// Like StoredImages, with the same samples, but keeps only the labels in memory. A RecordImages
/// maps the files, which must not be compressed, and reads images in place. Use it if many
/// processes on one machine should share the page cache, or if memory is short.
class LATHE_API RecordImages final : public ImageDataset {
 public:
  /// Reads each file once and checks it.
  /// throws: what StoredImages throws; DataError for a gzip file.
  RecordImages(const std::string& name, const std::string& root, const ImageOptions& options = {});

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int64_t label(int64_t i) const override { return labels_[static_cast<size_t>(i)]; }
  /// throws: FileError if a file was truncated meanwhile.
  StoredImage load(int64_t i, std::vector<uint8_t>& pixels) const override;

 protected:
  int64_t read_image(int64_t i, Key key, void* out) const override;

 private:
  /// Where image i of a file lies: at first + i * stride.
  struct Layout {
    ImageSpec spec;  // as in the file
    int64_t first, stride;
  };
  struct Opened {
    Layout layout;
    std::vector<std::unique_ptr<MappedFile>> files;  // with the same number of images each
    std::vector<uint8_t> labels;
  };
  static Opened open(const std::string& name, const std::string& root, const ImageOptions& options);
  RecordImages(Opened opened, const std::string& name, const ImageOptions& options);

  /// Calls use(pixels) with image i, padded if the options say so.
  template <class Use>
  void read_record(int64_t i, Use&& use) const;

  Layout layout_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<uint8_t> labels_;
};

}  // namespace lathe::data
