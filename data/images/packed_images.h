// PackedImages: the data set of a packed file (packed_file.h). Its images were decoded when the
// file was made, and are read in place from the system's page cache.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/images/image_datasets.h"
#include "lathe/data/images/packed_file.h"

namespace lathe::data {

/// A sample is x = the transformed image [C,h,w] and y = its class. The transform reads the file's
/// bytes in place and writes into the batch, without a copy in between. The images are in the page
/// cache, which all processes share and which the system shrinks when it needs memory. Data larger
/// than memory is read at the speed of the disk.
///
/// If another process replaces the file (as lathe data prepare does), an open PackedImages goes on
/// reading the old content. If another process truncates the file, reading a missing sample throws
/// FileError.
class LATHE_API PackedImages final : public ImageDataset {
 public:
  /// Opens the packed file `path`, and takes its training images or, without `train`, its test
  /// images.
  /// throws: what PackedFile and Transform::output throw; DataError if the file has no training
  /// images or, without `train`, no test images.
  explicit PackedImages(const std::string& path, bool train = true,
                        const Transform& transform = {});

  int64_t size() const override { return size_; }
  int64_t label(int64_t i) const override { return file_->label(first_ + i); }
  void prepare(int64_t i) const noexcept override { file_->prefetch(first_ + i); }
  StoredImage load(int64_t i, std::vector<uint8_t>& pixels) const override;
  bool has_one_size() const override { return one_size_; }
  std::string name(int64_t i) const override {
    return file_->path() + ": record " + std::to_string(first_ + i);
  }

 protected:
  int64_t read_image(int64_t i, Key key, void* out) const override;

 private:
  PackedImages(std::shared_ptr<const PackedFile> file, bool train, const Transform& transform);

  std::shared_ptr<const PackedFile> file_;
  int64_t first_, size_;
  bool one_size_;
};

}  // namespace lathe::data
