// The copy of a data set to the device, some images at a time.
#include "lathe/data/device/resident_images.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lathe/core/copy.h"
#include "lathe/core/error.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/stream.h"
#include "lathe/ops/views.h"

namespace lathe::data {

ResidentImages::ResidentImages(const ImageDataset& images, Device device) {
  LATHE_CHECK(ValueError, images.has_one_size(),
              "ResidentImages: the images of this data set have many sizes");
  const profile::MemoryTagScope data(profile::MemoryTag::kData);
  constexpr int64_t kImagesAtATime = 1024;
  const ImageSpec& spec = images.stored_spec();
  const int64_t count = images.size();
  images_ =
      empty({count, spec.channels, spec.height, spec.width}, {.dtype = kU8, .device = device});
  const Tensor labels = empty({count}, {.dtype = kI64});
  std::vector<uint8_t> pixels, some;
  for (int64_t first = 0; first < count; first += kImagesAtATime) {
    const int64_t n = std::min(kImagesAtATime, count - first);
    some.clear();
    for (int64_t i = first; i < first + n; ++i) {
      labels.data<int64_t>()[i] = images.load(i, pixels).label;
      some.insert(some.end(), pixels.begin(), pixels.end());
    }
    copy_values(narrow(images_, 0, first, n),
                from_blob(some.data(), {n, spec.channels, spec.height, spec.width}, kU8));
  }
  labels_ = labels.to(device);
  if (device.is_cuda()) synchronize(current_stream(device));  // other streams will read them
}

}  // namespace lathe::data
