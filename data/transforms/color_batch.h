// The colours of every image of a batch changed, where the images are. Internal to data/; users see
// augment.h.
#pragma once

#include <span>

#include "lathe/core/tensor.h"
#include "lathe/data/transforms/color.h"

namespace lathe::data {

namespace cpu {
/// out, images  u8 [N,C,H,W], C = 1 or 3, row-major, apart from each other; steps[n] of image n.
void change_colors(const Tensor& out, const Tensor& images, std::span<const ColorSteps> steps);
}  // namespace cpu
namespace cuda {
void change_colors(const Tensor& out, const Tensor& images, std::span<const ColorSteps> steps);
}  // namespace cuda

}  // namespace lathe::data
