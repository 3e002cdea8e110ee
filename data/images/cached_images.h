// CachedImages: decoded images of another data set, kept in memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/images/image_datasets.h"

namespace lathe::data {

/// The images of another data set. Each image is loaded when it is first read, and then kept in
/// memory. So from the second epoch on no file is read and nothing is decoded. In the end all
/// images, as they are before the transform, are in memory; there is no limit.
///
/// A CachedImages decodes JPEG files at full size. An ImageFolder decodes them only as large as the
/// transform needs (ImageFolderOptions::scaled_decoding), so its pixels may differ a little from
/// those of a CachedImages.
class LATHE_API CachedImages final : public ImageDataset {
 public:
  /// Copies the transform of `source`. Later changes of that transform have no effect here.
  /// throws: ValueError for null.
  explicit CachedImages(std::shared_ptr<const ImageDataset> source);
  ~CachedImages() override;

  int64_t size() const override { return source_->size(); }
  int64_t label(int64_t i) const override { return source_->label(i); }
  StoredImage load(int64_t i, std::vector<uint8_t>& pixels) const override;
  bool has_one_size() const override { return source_->has_one_size(); }
  std::string name(int64_t i) const override { return source_->name(i); }
  std::vector<std::string> broken() const override { return source_->broken(); }

  const ImageDataset& source() const { return *source_; }

 protected:
  int64_t read_image(int64_t i, Key key, void* out) const override;

 private:
  struct Image {
    StoredImage stored;
    std::vector<uint8_t> pixels;
  };
  const Image& image(int64_t i) const;

  std::shared_ptr<const ImageDataset> source_;
  std::unique_ptr<std::atomic<const Image*>[]> images_;  // null until loaded
};

}  // namespace lathe::data
