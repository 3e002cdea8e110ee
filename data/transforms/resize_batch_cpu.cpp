// resize_batch() on the CPU: images in parallel, each by resize_image().
#include "lathe/core/thread_pool.h"
#include "lathe/data/transforms/resize.h"
#include "lathe/data/transforms/resize_batch.h"

namespace lathe::data::cpu {

void resize_batch(const Tensor& out, const Tensor& images, std::span<const ResizeBox> boxes,
                  Interpolation interpolation) {
  const Tensor in = images.contiguous();
  const ImageSpec from{in.dim(1), in.dim(2), in.dim(3), kU8};
  const int64_t result = out.dim(1) * out.dim(2) * out.dim(3);
  parallel_for(out.dim(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const ResizeBox& box = boxes[static_cast<size_t>(n)];
      const ImageView image = ImageView::of(in.data<uint8_t>() + n * from.pixels(), from);
      resize_image(image.window(box.top, box.left, box.height, box.width),
                   {out.dim(2), out.dim(3), interpolation}, out.data<uint8_t>() + n * result);
    }
  });
}

}  // namespace lathe::data::cpu
