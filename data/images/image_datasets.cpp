// ImageDataset, StoredImages and Synthetic: the way of a sample from its bytes into the batch.
#include "lathe/data/images/image_datasets.h"

#include "lathe/core/error.h"
#include "lathe/data/images/cifar.h"
#include "lathe/data/images/idx.h"
#include "lathe/data/images/published_datasets.h"

namespace lathe::data {
namespace {

namespace fs = std::filesystem;

ImageSet read_images(const std::string& name, const fs::path& root, const ImageOptions& options) {
  const PublishedFiles files = find_published(name, root, options.train);
  ImageSet images =
      files.labels.empty()
          ? read_cifar(files.images, cifar_format(name, options.train, options.coarse))
          : read_idx_images(files.images[0], files.labels,
                            static_cast<int64_t>(dataset_info(name).class_names.size()));
  return options.pad_to > images.height ? pad_images(images, options.pad_to, options.pad_to)
                                        : images;
}

ImageSpec spec_of(const ImageSet& images) {
  return {images.channels, images.height, images.width, kU8};
}

std::vector<std::string> numbered_classes(int64_t classes) {
  std::vector<std::string> names;
  for (int64_t k = 0; k < classes; ++k) names.push_back("class " + std::to_string(k));
  return names;
}

}  // namespace

ImageDataset::ImageDataset(ImageSpec stored, std::vector<std::string> class_names,
                           std::vector<double> mean, std::vector<double> std)
    : stored_(stored),
      output_(stored),
      class_names_(std::move(class_names)),
      mean_(std::move(mean)),
      std_(std::move(std)) {}

SampleSpec ImageDataset::spec() const {
  return {
      {{"x", {output_.channels, output_.height, output_.width}, output_.dtype}, {"y", {}, kI64}}};
}

void ImageDataset::read(int64_t i, Key key, Slot out) const {
  const int64_t label = read_image(i, key, out.bytes(0).data());
  out.set<int64_t>(1, label);
}

void ImageDataset::transform(const uint8_t* image, const ImageSpec& spec, Key key, void* out,
                             FunctionRef<std::string()> name) const {
  if (spec != stored_) {
    const ImageSpec made = output_of(spec, name);
    LATHE_CHECK(DataError, made == output_, name(), ": the transform makes ", made.height, "x",
                made.width, " of an image of ", spec.height, "x", spec.width, ", but ",
                output_.height, "x", output_.width,
                " of the first one; end it with a fixed size, as resize(256), center_crop(224)");
  }
  transform_.apply(image, spec, key, out);
}

ImageSpec ImageDataset::output_of(const ImageSpec& spec, FunctionRef<std::string()> name) const
    try {
  return transform_.output(spec);
} catch (const ShapeError& error) {
  LATHE_FAIL(DataError, name(), ": ", error.message());
}

void ImageDataset::set_transform(const Transform& transform) {
  output_ = transform.output(stored_);
  transform_ = transform;
}

StoredImages::StoredImages(std::shared_ptr<const ImageSet> images,
                           std::vector<std::string> class_names, std::vector<double> mean,
                           std::vector<double> std, const Transform& transform)
    : ImageDataset(spec_of(*images), std::move(class_names), std::move(mean), std::move(std)),
      images_(std::move(images)) {
  set_transform(transform);
}

StoredImages::StoredImages(const std::string& name, const std::string& root,
                           const ImageOptions& options)
    : StoredImages(std::make_shared<const ImageSet>(read_images(name, root, options)),
                   published_classes(name, options.coarse), dataset_info(name).mean,
                   dataset_info(name).std, options.transform) {}

StoredImages::StoredImages(ImageSet images, std::vector<std::string> class_names,
                           std::vector<double> mean, std::vector<double> std,
                           const Transform& transform)
    : StoredImages(std::make_shared<const ImageSet>(std::move(images)), std::move(class_names),
                   std::move(mean), std::move(std), transform) {
  LATHE_CHECK(
      DataError,
      static_cast<int64_t>(images_->pixels.size()) == images_->count() * images_->image_bytes(),
      "StoredImages: ", images_->count(), " labels, but ", images_->pixels.size(),
      " bytes of pixels");
  for (int64_t i = 0; i < size(); ++i)
    LATHE_CHECK(DataError, label(i) < classes(), "StoredImages: record ", i, " has label ",
                label(i), ", but there are ", classes(), " classes");
}

void StoredImages::prepare(int64_t i) const noexcept {
  constexpr int64_t kCacheLine = 64;
  const uint8_t* image = images_->image(i);
  for (int64_t k = 0; k < images_->image_bytes(); k += kCacheLine) __builtin_prefetch(image + k);
}

StoredImage StoredImages::load(int64_t i, std::vector<uint8_t>& pixels) const {
  const uint8_t* image = images_->image(i);
  pixels.assign(image, image + images_->image_bytes());
  return {stored_spec(), label(i)};
}

Synthetic::Synthetic(const SyntheticOptions& options, const Transform& transform)
    : ImageDataset({options.channels, options.height, options.width, kU8},
                   numbered_classes(options.classes),
                   std::vector<double>(static_cast<size_t>(options.channels), kSyntheticMean),
                   std::vector<double>(static_cast<size_t>(options.channels), kSyntheticStd)),
      options_(options) {
  check_synthetic(options);
  set_transform(transform);
}

int64_t Synthetic::read_image(int64_t i, Key key, void* out) const {
  thread_local std::vector<uint8_t> scratch;
  const int64_t label = load(i, scratch).label;
  transform(scratch.data(), key, out);
  return label;
}

StoredImage Synthetic::load(int64_t i, std::vector<uint8_t>& pixels) const {
  pixels.resize(static_cast<size_t>(stored_spec().pixels()));
  synthetic_image(options_, i, pixels.data());
  return {stored_spec(), label(i)};
}

}  // namespace lathe::data
