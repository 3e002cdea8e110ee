// augment(): transforms a whole batch in one call, on the device that holds its bytes. For images
// that are on the GPU, or are copied to it as bytes.
#pragma once

#include <cstdint>
#include <span>

#include "lathe/core/tensor.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

struct AugmentOptions {
  uint64_t seed = 0;                  // (seed, epoch, index) decides a sample's random numbers
  int64_t epoch = 0;                  // counts from 0
  DType dtype = kF32;                 // of the result if it is floating: f32, f16 or bf16
  MemoryFormat format = kContiguous;  // of the result
};

/// Transforms each image. The results equal those of a loader's workers: the same bytes or f32
/// numbers for the same (seed, epoch, index). For a half dtype these numbers are rounded.
///   images  u8 [N,C,H,W], any strides     indices  [N], the samples' indices in their data set
///   →  [N,C,h,w] on the images' device, u8 if the transform has no to_float or normalize
/// throws: ShapeError, DTypeError, ValueError if the transform or the options do not fit.
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
