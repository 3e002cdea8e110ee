// pack_images(): images are decoded in parallel, a block at a time, and written in order.
#include "lathe/data/images/pack_images.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/core/thread_pool.h"

namespace lathe::data {
namespace {

constexpr int64_t kImagesPerThread = 16;  // decoded per thread before a block is written

struct Decoded {
  StoredImage stored;
  std::vector<uint8_t> pixels;
  std::string why_broken;  // empty if it is whole
};

void decode(const ImageDataset& images, int64_t i, const Transform& sized, bool skip_broken,
            Decoded& out) {
  out.why_broken.clear();
  ImageSpec made;
  try {
    out.stored = images.load(i, out.pixels);
    made = sized.output(out.stored.spec);
  } catch (const ShapeError& error) {
    out.why_broken = concat(images.name(i), ": ", error.message());
    if (!skip_broken) LATHE_FAIL(DataError, out.why_broken);
  } catch (const DataError& error) {
    if (!skip_broken) throw;
    out.why_broken = error.message();
  } catch (const FileError& error) {  // converted: FileError from pack_images means the packed file
    if (!skip_broken) LATHE_FAIL(DataError, error.message());
    out.why_broken = error.message();
  }
  if (!out.why_broken.empty() || sized.empty()) return;
  std::vector<uint8_t> pixels(static_cast<size_t>(made.pixels()));
  sized.apply(out.pixels.data(), out.stored.spec, Key{}, pixels.data());
  out.pixels = std::move(pixels);
  out.stored.spec = made;
}

}  // namespace

std::vector<std::string> pack_images(const ImageDataset& images, PackedWriter& out,
                                     const PackOptions& options) {
  const Transform sized =
      options.side > 0 ? compose(resize(options.side), center_crop(options.side)) : Transform();
  std::vector<std::string> broken;
  std::vector<Decoded> group(static_cast<size_t>(kImagesPerThread * num_threads()));
  for (int64_t first = 0; first < images.size();) {
    const int64_t count = std::min(static_cast<int64_t>(group.size()), images.size() - first);
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        decode(images, first + k, sized, options.skip_broken, group[static_cast<size_t>(k)]);
    });
    for (int64_t k = 0; k < count; ++k) {
      const Decoded& image = group[static_cast<size_t>(k)];
      if (image.why_broken.empty()) {
        LATHE_CHECK(ValueError, image.stored.spec.channels == out.info().channels,
                    "pack_images: image ", first + k, " has ", image.stored.spec.channels,
                    " channels, but the file is for images of ", out.info().channels);
        out.add(image.pixels.data(), image.stored.spec.height, image.stored.spec.width,
                image.stored.label);
      } else {
        broken.push_back(image.why_broken);
      }
    }
    first += count;
    if (options.progress) options.progress(first);
  }
  return broken;
}

}  // namespace lathe::data
