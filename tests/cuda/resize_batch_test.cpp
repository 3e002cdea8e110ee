// The kernels of data/transforms/resize_batch_cuda.cu against the CPU's: equal to the last bit.
#include "lathe/data/transforms/resize_batch.h"

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

void compare(const Tensor& images, std::span<const data::ResizeBox> boxes, int64_t height,
             int64_t width, data::Interpolation interpolation) {
  const Tensor want = empty({images.dim(0), images.dim(1), height, width}, {.dtype = kU8});
  const Tensor got = on_device(want.clone());
  data::cpu::resize_batch(want, images, boxes, interpolation);
  data::cuda::resize_batch(got, on_device(images), boxes, interpolation);
  const std::string text = difference(on_host(got), want, 0);
  CHECK_MESSAGE(text.empty(), concat(images, " to ", height, "x", width), ": ", text);
}

}  // namespace

TEST_CASE("resize kernels: equal the CPU for every box, size, interpolation and layout") {
  manual_seed(72);
  const std::vector<data::ResizeBox> boxes = {
      {0, 0, 11, 14}, {0, 0, 1, 1}, {3, 5, 8, 9}, {10, 0, 1, 14}, {2, 13, 7, 1}};
  for (const auto how : {data::Interpolation::kBilinear, data::Interpolation::kNearest}) {
    for (const Layout& layout : layouts()) {
      const Tensor images = layout.apply(randint(0, 256, {5, 3, 11, 14}, {.dtype = kU8}));
      compare(images, boxes, 16, 24, how);
      compare(images, boxes, 5, 3, how);
    }
    const Tensor one = randint(0, 256, {5, 1, 11, 14}, {.dtype = kU8});
    compare(one, boxes, 11, 14, how);
    compare(one, boxes, 1, 1, how);
    compare(one.narrow(0, 0, 0), {}, 4, 4, how);
  }
}

TEST_CASE("resize kernels: more samples than one launch takes") {
  manual_seed(73);
  std::vector<data::ResizeBox> boxes;
  for (int64_t n = 0; n < 131; ++n) boxes.push_back({n % 3, n % 4, 2 + n % 4, 1 + n % 3});
  compare(randint(0, 256, {131, 2, 8, 7}, {.dtype = kU8}), boxes, 6, 5,
          data::Interpolation::kBilinear);
}
