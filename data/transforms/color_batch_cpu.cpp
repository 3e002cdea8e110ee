// Colour changes of a batch on the CPU: images in parallel, each as in color.cpp.
#include <cstring>

#include "lathe/core/thread_pool.h"
#include "lathe/data/transforms/color_batch.h"

namespace lathe::data::cpu {

void change_colors(const Tensor& out, const Tensor& images, std::span<const ColorSteps> steps) {
  const int64_t channels = images.dim(1), count = images.dim(2) * images.dim(3);
  const int64_t image = channels * count;
  parallel_for(images.dim(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      uint8_t* to = out.data<uint8_t>() + n * image;
      std::memcpy(to, images.data<uint8_t>() + n * image, static_cast<size_t>(image));
      data::change_colors({to, channels, count}, steps[static_cast<size_t>(n)]);
    }
  });
}

}  // namespace lathe::data::cpu
