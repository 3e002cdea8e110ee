// augment(): a transform of a whole batch at once, on the device of its bytes. For images that live
// on the GPU, or that go to it as bytes.
#pragma once

#include <cstdint>
#include <span>

#include "lathe/core/tensor.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

struct AugmentOptions {
  uint64_t seed = 0;                  // (seed, epoch, index of a sample) decides everything random
  int64_t epoch = 0;                  // counts from 0
  DType dtype = kF32;                 // of the result if it is floating: f32, f16 or bf16
  MemoryFormat format = kContiguous;  // of the result
};

/// What `transform` makes of each image, equal to what the loader's workers make: the same bytes or
/// f32 numbers for the same (seed, epoch, index). Half results are those numbers, rounded.
///   images  u8 [N,C,H,W], any strides     indices  [N], of the samples in their data set
///   →  [N,C,h,w] on the images' device, u8 if the transform has no to_float or normalize
/// throws: ShapeError, DTypeError, ValueError (the transform does not fit, or the options).
LATHE_API Tensor augment(const Tensor& images, const Transform& transform,
                         std::span<const int64_t> indices, const AugmentOptions& options = {});

/// throws: DTypeError, ShapeError for options or [N,C,H,W] that augment() does not take.
void check_options(const char* op, const Tensor& images, const AugmentOptions& options);

struct PixelPlan;

namespace cpu {
/// out [N,C,h,w], dense in either memory format; one plan per sample, all with one scale and bias.
void augment(const Tensor& out, const Tensor& images, std::span<const PixelPlan> plans);
}  // namespace cpu
namespace cuda {
void augment(const Tensor& out, const Tensor& images, std::span<const PixelPlan> plans);
}  // namespace cuda

}  // namespace lathe::data
