// ImageSubset: checks, and the transform that it shares with its source.
#include "lathe/data/images/image_subset.h"

#include "lathe/core/error.h"

namespace lathe::data {
namespace {

ImageDataset& not_null(const std::shared_ptr<ImageDataset>& source) {
  LATHE_CHECK(ValueError, source != nullptr, "ImageSubset: a null data set");
  return *source;
}

}  // namespace

ImageSubset::ImageSubset(std::shared_ptr<ImageDataset> source, std::vector<int64_t> indices)
    : ImageDataset(not_null(source).stored_spec(), not_null(source).class_names(),
                   not_null(source).mean(), not_null(source).std()),
      source_(std::move(source)),
      indices_(std::move(indices)) {
  for (const int64_t i : indices_)
    LATHE_CHECK(IndexError, i >= 0 && i < source_->size(), "ImageSubset: index ", i,
                " is out of range for ", source_->size(), " images");
  ImageDataset::set_transform(source_->transform());
}

void ImageSubset::set_transform(const Transform& transform) {
  source_->set_transform(transform);
  ImageDataset::set_transform(transform);
}

}  // namespace lathe::data
