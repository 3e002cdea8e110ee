// CachedImages: one atomic pointer per image, set by the first thread that has loaded it.
#include "lathe/data/images/cached_images.h"

#include <string>

#include "lathe/core/error.h"

namespace lathe::data {
namespace {

const ImageDataset& checked(const std::shared_ptr<const ImageDataset>& source) {
  LATHE_CHECK(ValueError, source != nullptr, "CachedImages: no data set");
  return *source;
}

}  // namespace

CachedImages::CachedImages(std::shared_ptr<const ImageDataset> source)
    : ImageDataset(checked(source).stored_spec(), source->class_names(), source->mean(),
                   source->std()),
      source_(std::move(source)),
      images_(std::make_unique<std::atomic<const Image*>[]>(static_cast<size_t>(size()))) {
  set_transform(source_->transform());
}

CachedImages::~CachedImages() {
  for (int64_t i = 0; i < size(); ++i)
    delete images_[static_cast<size_t>(i)].load(std::memory_order_relaxed);
}

const CachedImages::Image& CachedImages::image(int64_t i) const {
  std::atomic<const Image*>& kept = images_[static_cast<size_t>(i)];
  if (const Image* image = kept.load(std::memory_order_acquire)) return *image;
  auto loaded = std::make_unique<Image>();
  loaded->stored = source_->load(i, loaded->pixels);
  const Image* first = nullptr;  // if two threads load the same image, the first one's is kept
  if (kept.compare_exchange_strong(first, loaded.get(), std::memory_order_acq_rel))
    first = loaded.release();
  return *first;
}

StoredImage CachedImages::load(int64_t i, std::vector<uint8_t>& pixels) const {
  const Image& kept = image(i);
  pixels = kept.pixels;
  return kept.stored;
}

int64_t CachedImages::read_image(int64_t i, Key key, void* out) const {
  const Image& kept = image(i);
  transform(kept.pixels.data(), kept.stored.spec, key, out, [&] { return name(i); });
  return kept.stored.label;
}

}  // namespace lathe::data
