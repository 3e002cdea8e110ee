// Row-major or NHWC: which of the two an op keeps, and new tensors in that order.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// The dense order in which an op on planes reads x and writes its result: NHWC if x is NHWC and
/// not row-major as well, else row-major.
inline MemoryFormat memory_format_of(const Tensor& x) {
  return !x.is_contiguous() && x.is_contiguous(kChannelsLast) ? kChannelsLast : kContiguous;
}

/// True for NHWC images, and for parts of their channels or pixels: a pixel's channels lie side by
/// side. False where x fits that order only because its sizes are 1.
inline bool has_whole_pixels(const Tensor& x) {
  if (x.ndim() != 4) return false;
  const Shape& size = x.shape();
  const Strides& step = x.strides();
  return size[1] > 1 && step[1] == 1 && step[3] >= size[1] && step[2] >= size[3] * step[3] &&
         step[0] >= size[2] * step[2];
}

/// Like memory_format_of(), for a convolution, which also computes parts of NHWC images in NHWC.
/// With one channel or one pixel x fits both orders; then the strides of the dimensions of size 1
/// decide. A convolution must not lose the order of such an x, because its result has channels and
/// pixels of its own: with grey NHWC images the first layer sets the order of the whole network.
inline MemoryFormat conv2d_format(const Tensor& x) {
  if (!x.is_contiguous(kChannelsLast)) return has_whole_pixels(x) ? kChannelsLast : kContiguous;
  const bool open = x.is_contiguous();
  const bool written_so = x.strides() == channels_last_strides(x.shape()) &&
                          !(x.strides() == contiguous_strides(x.shape()));
  return !open || written_so ? kChannelsLast : kContiguous;
}

/// The dense strides of `shape` in that order.
/// throws: ShapeError for kChannelsLast unless 4-d.
inline Strides dense_strides(const Shape& shape, MemoryFormat format) {
  return format == kChannelsLast ? channels_last_strides(shape) : contiguous_strides(shape);
}

/// An uninitialised tensor in that order.
inline Tensor empty_in(MemoryFormat format, const Shape& shape, DType dtype, Device device) {
  return empty_strided(shape, dense_strides(shape, format), dtype, device);
}

}  // namespace lathe
