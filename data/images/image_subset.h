// ImageSubset: some images of another data set, as a data set of images.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/data/images/image_datasets.h"

namespace lathe::data {

/// The images `indices` of another data set, in this order, with all of its classes. The
/// ImageSubset shares the other data set: set_transform() sets the transform of both.
class LATHE_API ImageSubset final : public ImageDataset {
 public:
  /// throws: ValueError for null; IndexError naming an index that is out of range.
  ImageSubset(std::shared_ptr<ImageDataset> source, std::vector<int64_t> indices);

  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  int64_t label(int64_t i) const override { return source_->label(index(i)); }
  StoredImage load(int64_t i, std::vector<uint8_t>& pixels) const override {
    return source_->load(index(i), pixels);
  }
  bool has_one_size() const override { return source_->has_one_size(); }
  std::string name(int64_t i) const override { return source_->name(index(i)); }
  std::vector<std::string> broken() const override { return source_->broken(); }
  void prepare(int64_t i) const noexcept override { source_->prepare(index(i)); }
  void set_transform(const Transform& transform) override;

 protected:
  int64_t read_image(int64_t i, Key key, void* out) const override {
    return read_image_of(*source_, index(i), key, out);
  }

 private:
  int64_t index(int64_t i) const { return indices_[static_cast<size_t>(i)]; }

  std::shared_ptr<ImageDataset> source_;
  std::vector<int64_t> indices_;
};

}  // namespace lathe::data
