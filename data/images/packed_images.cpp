// PackedImages: the images of one part (training or test) of a packed file.
#include "lathe/data/images/packed_images.h"

#include "lathe/core/error.h"

namespace lathe::data {
namespace {

struct Part {
  int64_t first, count;
};

Part part_of(const PackedFile& file, bool train) {
  const int64_t split = file.train_images();
  const Part part = train ? Part{0, split} : Part{split, file.size() - split};
  LATHE_CHECK(DataError, part.count > 0, file.path(), ": holds no images for ",
              train ? "training" : "testing");
  return part;
}

}  // namespace

PackedImages::PackedImages(const std::string& path, bool train, const Transform& transform)
    : PackedImages(std::make_shared<const PackedFile>(path), train, transform) {}

PackedImages::PackedImages(std::shared_ptr<const PackedFile> file, bool train,
                           const Transform& transform)
    : ImageDataset(file->spec(part_of(*file, train).first), file->info().class_names,
                   file->info().mean, file->info().std),
      file_(std::move(file)),
      first_(part_of(*file_, train).first),
      size_(part_of(*file_, train).count),
      one_size_(true) {
  for (int64_t i = 0; i < size_ && one_size_; ++i)
    one_size_ = file_->spec(first_ + i) == stored_spec();
  set_transform(transform);
}

StoredImage PackedImages::load(int64_t i, std::vector<uint8_t>& pixels) const {
  const StoredImage stored = {file_->spec(first_ + i), label(i)};
  file_->read(first_ + i,
              [&](const uint8_t* image) { pixels.assign(image, image + stored.spec.pixels()); });
  return stored;
}

int64_t PackedImages::read_image(int64_t i, Key key, void* out) const {
  const int64_t record = first_ + i;
  file_->read(record, [&](const uint8_t* image) {
    transform(image, file_->spec(record), key, out, [&] { return name(i); });
  });
  return label(i);
}

}  // namespace lathe::data
