// RecordImages: where each image lies in its file, the first check of a file, and padding.
#include "lathe/data/images/record_images.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/data/images/cifar.h"
#include "lathe/data/images/idx.h"
#include "lathe/data/images/published_datasets.h"

namespace lathe::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kIdxHeaderBytes = 16;  // for three dimensions

std::unique_ptr<MappedFile> map_plain(const fs::path& path) {
  auto file = std::make_unique<MappedFile>(path.string());
  bool is_gzip = false;
  if (file->size() >= 2)
    file->read(0, 2, [&](const std::byte* bytes) {
      is_gzip = bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
    });
  LATHE_CHECK(DataError, !is_gzip, path.string(),
              ": is compressed, so its images cannot be read one by one: unpack it with gunzip, or "
              "keep them in memory (--data-cache ram)");
  return file;
}

ImageSpec padded(ImageSpec spec, int64_t pad_to) {
  if (pad_to > spec.height) spec.height = spec.width = pad_to;
  return spec;
}

}  // namespace

RecordImages::Opened RecordImages::open(const std::string& name, const std::string& root,
                                        const ImageOptions& options) {
  const PublishedFiles found = find_published(name, root, options.train);
  Opened out;
  for (const fs::path& path : found.images) out.files.push_back(map_plain(path));
  if (!found.labels.empty()) {
    ImageSet set = read_idx_images(found.images[0], found.labels,
                                   static_cast<int64_t>(dataset_info(name).class_names.size()));
    out.layout = {
        {set.channels, set.height, set.width, kU8}, kIdxHeaderBytes, set.height * set.width};
    out.labels = std::move(set.labels);
    return out;
  }
  const CifarFormat format = cifar_format(name, options.train, options.coarse);
  for (const fs::path& path : found.images) {
    const ImageSet set = read_cifar({path}, format);
    const ImageSpec spec = {set.channels, set.height, set.width, kU8};
    out.layout = {spec, format.label_bytes, format.label_bytes + spec.pixels()};
    out.labels.insert(out.labels.end(), set.labels.begin(), set.labels.end());
  }
  return out;
}

RecordImages::RecordImages(const std::string& name, const std::string& root,
                           const ImageOptions& options)
    : RecordImages(open(name, root, options), name, options) {}

RecordImages::RecordImages(Opened opened, const std::string& name, const ImageOptions& options)
    : ImageDataset(padded(opened.layout.spec, options.pad_to),
                   published_classes(name, options.coarse), dataset_info(name).mean,
                   dataset_info(name).std),
      layout_(opened.layout),
      files_(std::move(opened.files)),
      labels_(std::move(opened.labels)) {
  set_transform(options.transform);
}

template <class Use>
void RecordImages::read_record(int64_t i, Use&& use) const {
  const int64_t per_file = size() / static_cast<int64_t>(files_.size());
  const ImageSpec& spec = layout_.spec;
  const int64_t offset = layout_.first + i % per_file * layout_.stride;
  files_[static_cast<size_t>(i / per_file)]->read(
      offset, spec.pixels(), [&](const std::byte* bytes) {
        const auto* pixels = reinterpret_cast<const uint8_t*>(bytes);
        if (spec == stored_spec()) return use(pixels);
        const ImageSet one = {spec.channels,
                              spec.height,
                              spec.width,
                              std::vector<uint8_t>(pixels, pixels + spec.pixels()),
                              {0}};
        use(pad_images(one, stored_spec().height, stored_spec().width).pixels.data());
      });
}

StoredImage RecordImages::load(int64_t i, std::vector<uint8_t>& pixels) const {
  read_record(i,
              [&](const uint8_t* image) { pixels.assign(image, image + stored_spec().pixels()); });
  return {stored_spec(), label(i)};
}

int64_t RecordImages::read_image(int64_t i, Key key, void* out) const {
  read_record(i, [&](const uint8_t* image) { transform(image, key, out); });
  return label(i);
}

}  // namespace lathe::data
