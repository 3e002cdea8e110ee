// augment_rows(): makes a batch from images on a device, in two parts. draw_windows() draws the
// random numbers of a batch on the host. augment_rows() then makes the batch in one kernel, which
// can be part of a captured graph.
#pragma once

#include <cstdint>
#include <span>

#include "lathe/core/tensor.h"
#include "lathe/data/transforms/augment.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

struct PixelPlan;
struct SampleWindow;

/// True if all stages only move, erase and rescale pixels, which augment_rows() requires.
LATHE_API bool has_only_pixel_stages(const Transform& transform);

/// Draws the random numbers of the transform for each sample: the place of its window, flips,
/// erased rectangles. Reads only `seed` and `epoch` of the options.
///   stored   channels and size of the images before the transform
///   indices  [N], as for augment()
///   →  u8 [N,32] on the CPU
/// throws: ValueError for a transform that resizes images or changes colours, or for images that
/// are too large; what Transform::output throws.
LATHE_API Tensor draw_windows(const Transform& transform, const ImageSpec& stored,
                              std::span<const int64_t> indices, const AugmentOptions& options);

/// Makes a batch from rows of `images`, on a GPU in one kernel. With windows =
/// draw_windows(transform, …, indices, options) the result has the bits of
/// augment(index_select(images, 0, rows), transform, indices, options). Reads only `dtype` and
/// `format` of the options.
///   images  u8 [M,C,H,W], any strides     rows  i64 [N], of images     windows  u8 [N,32]
///   → [N,C,h,w]
/// A row outside [0, M) is an IndexError. On a CPU augment_rows() throws it. On a GPU the image of
/// this row is zeros, and the next call that waits for the device throws the IndexError.
/// throws: ShapeError, DTypeError or DeviceError if the tensors or options do not fit; ValueError
/// for a transform that resizes images or changes colours; what Transform::output throws.
LATHE_API Tensor augment_rows(const Tensor& images, const Tensor& rows, const Tensor& windows,
                              const Transform& transform, const AugmentOptions& options = {});

/// The arguments of the kernels of augment_rows(). `same` is the plan of one sample: the kernels
/// read from it the values that are equal for all samples.
struct RowsOfImages {
  const Tensor &images, &rows, &windows;
  const PixelPlan& same;
};

namespace cpu {
/// throws: IndexError, with nothing changed.
void augment_rows(const Tensor& out, const RowsOfImages& from);
}  // namespace cpu
namespace cuda {
void augment_rows(const Tensor& out, const RowsOfImages& from);
}  // namespace cuda

}  // namespace lathe::data
