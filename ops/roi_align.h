// Features of regions of images. roi_align.cpp: gradients, and the form for a GPU, which is made of
// other ops; window_kernels/roi_align_cpu.cpp: the CPU's loops. The name and numbers are those of
// torchvision.ops.
#pragma once

#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct RoiAlignOptions {
  double spatial_scale = 1;     // from the boxes' coordinates to x's pixels
  int64_t sampling_ratio = -1;  // points per bin and direction; not above 0: as many as its pixels
  bool aligned = false;         // true: subtracts half a pixel from the scaled coordinates
};

/// Pools regions of images: y[k,c] is box k of image x[n], divided into `output_size` bins. Points
/// are spread evenly in a bin. The bin's value is the mean of x, interpolated bilinearly, at them.
///   x      [N,C,H,W]
///   boxes  [K,5]: n, x1, y1, x2, y2, of x's dtype; or a list of N tensors [K_n,4] without n. For
///          one image also [K,4]. f16 holds n to 2048 and bf16 to 256; the list has no such limit
///   →      [K,C,P,Q] for output_size {P, Q}
/// Without aligned, sides of less than a pixel count as a pixel. A point more than a pixel outside
/// of the image counts as 0. A pixel with no weight is not read, so its NaN has no effect. Without
/// a sampling_ratio above 0 it waits for the device.
/// Scratch memory: on the CPU some numbers for each row and column of pixels under a box. On a GPU
/// all boxes get as many points per bin as the largest one, at most H + 6 by W + 6, and each point
/// reads 4C numbers.
/// dtypes: floats; half types are computed in f32.
/// grad: x, twice differentiable; boxes get none.
/// amp: none, the result follows x.
/// throws: IndexError for an image n outside [0, N) (on a GPU the next call that waits for the
/// device throws it); ValueError for an output_size that is not positive, and for a box that is not
/// finite without a sampling_ratio above 0; ShapeError, DTypeError, DeviceError.
/// ref: He et al. 2017 (arXiv:1703.06870).
LATHE_API Tensor roi_align(const Tensor& x, const Tensor& boxes, Pair output_size,
                           const RoiAlignOptions& options = {});
LATHE_API Tensor roi_align(const Tensor& x, const Tensors& boxes, Pair output_size,
                           const RoiAlignOptions& options = {});

namespace cpu {
/// All tensors are dense, of f32 or f64. image (i64 [K]) says whose pixels box k pools; corners
/// [K,4] are its x1, y1, x2, y2 among the pixels. The bits do not depend on the number of threads.
///   x [N,C,H,W]   y [K,C,P,Q]
void roi_align(const Tensor& y, const Tensor& x, const Tensor& image, const Tensor& corners,
               const RoiAlignOptions& opt);
/// dx [N,C,H,W] = the gradient of x, from dy [K,C,P,Q].
void roi_align_grad(const Tensor& dx, const Tensor& dy, const Tensor& image, const Tensor& corners,
                    const RoiAlignOptions& opt);
/// The first box whose bins have no finite side, or K.
int64_t first_endless_box(const Tensor& corners, Pair size, const RoiAlignOptions& opt);
}  // namespace cpu

}  // namespace lathe
