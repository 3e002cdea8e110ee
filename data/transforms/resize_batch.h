// Resizing of a part of every image of a batch, on the images' device. Internal to data/; the
// public function is in augment.h.
#pragma once

#include <cstdint>
#include <span>

#include "lathe/core/tensor.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

/// A part of an image. It lies within the image, and no side is 0.
struct ResizeBox {
  int64_t top, left, height, width;
};

/// out u8 [N,C,h,w], row-major, from one box of each image of u8 [N,C,H,W], any strides. On both
/// devices these are the bytes of resize_image().

namespace cpu {
void resize_batch(const Tensor& out, const Tensor& images, std::span<const ResizeBox> boxes,
                  Interpolation interpolation);
}  // namespace cpu
namespace cuda {
/// Does not wait for the device.
/// throws: ValueError if an image or result has 2^31 pixels or more.
void resize_batch(const Tensor& out, const Tensor& images, std::span<const ResizeBox> boxes,
                  Interpolation interpolation);
}  // namespace cuda

}  // namespace lathe::data
