#include "lathe/data/image_stage.h"

#include "lathe/core/error.h"
#include "lathe/core/thread_pool.h"

namespace lathe::data {

Tensor ImageStage::run_batch(const Tensor& images, const std::vector<Random>& randoms) const {
  LATHE_CHECK(ValueError, images.device().is_cpu(),
              "augment: a stage of the transform has no GPU kernel; it belongs into the loader's "
              "transform (images: ",
              images, ")");
  const Tensor in = images.contiguous();
  const ImageSpec from{in.dim(1), in.dim(2), in.dim(3), kU8}, to = output(from);
  const Tensor out = empty({in.dim(0), to.channels, to.height, to.width}, {.dtype = kU8});
  parallel_for(in.dim(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const ImageView view = ImageView::of(in.data<uint8_t>() + n * from.pixels(), from);
      run(view, randoms[static_cast<size_t>(n)], false, out.data<uint8_t>() + n * to.pixels());
    }
  });
  return out;
}

void check_bytes(const char* stage, const ImageSpec& in) {
  LATHE_CHECK(DTypeError, in.dtype == kU8, stage, ": the image is ", in.dtype, " already; ", stage,
              " comes before to_float and normalize");
}

}  // namespace lathe::data
