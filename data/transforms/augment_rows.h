// augment_rows(): a batch of images that lie on a device, in two parts. What is random is drawn on
// the host for each batch; one kernel, which can be part of a captured graph, then makes the batch.
#pragma once

#include <cstdint>
#include <span>

#include "lathe/core/tensor.h"
#include "lathe/data/transforms/augment.h"
#include "lathe/data/transforms/transforms.h"

namespace lathe::data {

struct PixelPlan;
struct SampleWindow;

/// Whether all stages only move, erase and rescale pixels, as augment_rows() needs it.
LATHE_API bool has_only_pixel_stages(const Transform& transform);

/// What the transform draws for each sample: where its window lies, how it is flipped, what is
/// erased. Of options only seed and epoch count.
///   stored  the kind of the images before the transform      indices  [N], as for augment()
///   →  u8 [N,32] on the CPU
/// throws: ValueError for a transform with other stages, or for images that are too large; what
/// Transform::output throws.
LATHE_API Tensor draw_windows(const Transform& transform, const ImageSpec& stored,
                              std::span<const int64_t> indices, const AugmentOptions& options);

/// The same bits as augment(index_select(images, 0, rows), transform, indices, options) with
/// windows = draw_windows(transform, …, indices, options), in one kernel on a GPU. Of options only
/// dtype and format count.
///   images  u8 [M,C,H,W], any strides     rows  i64 [N], of images     windows  u8 [N,32]
///   →  [N,C,h,w]. A row outside of [0, M) gives zeros and raises IndexError as index_select does.
/// throws: ShapeError, DTypeError, DeviceError, ValueError.
LATHE_API Tensor augment_rows(const Tensor& images, const Tensor& rows, const Tensor& windows,
                              const Transform& transform, const AugmentOptions& options = {});

/// What the kernels get. `same` is any sample's plan: for what is the same in all of them.
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
