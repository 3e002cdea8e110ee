// A part of every image of a batch made larger or smaller, where the images are. Internal to data/;
// users see augment.h.
#pragma once

#include <cstdint>
#include <span>

#include "lathe/core/tensor.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

/// A part of an image; within it, no side 0.
struct ResizeBox {
  int64_t top, left, height, width;
};

// out u8 [N,C,h,w], row-major, from the boxes of images u8 [N,C,H,W], any strides, one each: the
// bytes of resize_image() on both.

namespace cpu {
void resize_batch(const Tensor& out, const Tensor& images, std::span<const ResizeBox> boxes,
                  Interpolation interpolation);
}  // namespace cpu
namespace cuda {
/// Without waiting.
/// throws: ValueError if an image or result has 2^31 pixels or more.
void resize_batch(const Tensor& out, const Tensor& images, std::span<const ResizeBox> boxes,
                  Interpolation interpolation);
}  // namespace cuda

}  // namespace lathe::data
