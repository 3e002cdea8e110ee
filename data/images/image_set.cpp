// pad_images() and append_images().
#include "lathe/data/images/image_set.h"

#include <cstring>

#include "lathe/core/error.h"

namespace lathe::data {

ImageSet pad_images(const ImageSet& images, int64_t height, int64_t width) {
  LATHE_CHECK(ValueError, height >= images.height && width >= images.width,
              "pad_images: images of ", images.height, "x", images.width, " do not fit into ",
              height, "x", width);
  ImageSet out{images.channels, height, width, {}, images.labels};
  out.pixels.resize(static_cast<size_t>(images.count() * out.image_bytes()), 0);
  const int64_t top = (height - images.height) / 2, left = (width - images.width) / 2;
  for (int64_t plane = 0; plane < images.count() * images.channels; ++plane) {
    const uint8_t* from = images.pixels.data() + plane * images.height * images.width;
    uint8_t* to = out.pixels.data() + plane * height * width + top * width + left;
    for (int64_t row = 0; row < images.height; ++row)
      std::memcpy(to + row * width, from + row * images.width, static_cast<size_t>(images.width));
  }
  return out;
}

void append_images(ImageSet& images, const ImageSet& more) {
  LATHE_CHECK(ValueError,
              images.channels == more.channels && images.height == more.height &&
                  images.width == more.width,
              "append_images: images of ", more.channels, "x", more.height, "x", more.width,
              " cannot follow images of ", images.channels, "x", images.height, "x", images.width);
  images.pixels.insert(images.pixels.end(), more.pixels.begin(), more.pixels.end());
  images.labels.insert(images.labels.end(), more.labels.begin(), more.labels.end());
}

}  // namespace lathe::data
