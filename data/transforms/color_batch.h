// Changes of the colours of a batch's images, on their device. Internal to data/; the public
// function is in augment.h.
#pragma once

#include <span>

#include "lathe/core/tensor.h"
#include "lathe/data/transforms/color.h"

namespace lathe::data {

namespace cpu {
/// out, images  u8 [N,C,H,W], C = 1 or 3, row-major, not overlapping; steps[n] is for image n.
void change_colors(const Tensor& out, const Tensor& images, std::span<const ColorSteps> steps);
}  // namespace cpu
namespace cuda {
void change_colors(const Tensor& out, const Tensor& images, std::span<const ColorSteps> steps);
}  // namespace cuda

}  // namespace lathe::data
