// Keys from sizes. Contracts: conv2d_key.h.
#include "lathe/ops/conv/search/conv2d_key.h"

#include <algorithm>

#include "lathe/core/ceil_div.h"
#include "lathe/core/math_mode.h"
#include "lathe/ops/conv/search/cudnn_settings.h"

namespace lathe {

bool conv2d_uses_tensor_cores(DType dtype) { return is_half(dtype) || tf32(); }

Conv2dGeometry conv2d_padded(Conv2dGeometry g, MemoryFormat format, DType dtype) {
  if (format != kChannelsLast || g.groups != 1 || !conv2d_uses_tensor_cores(dtype)) return g;
  const auto group = static_cast<int64_t>(16 / size_of(dtype));
  g.C = round_up(g.C, group);
  g.K = round_up(g.K, group);
  return g;
}

ConvTensor conv2d_tensor(const Shape& shape, MemoryFormat format, DType dtype, int64_t alignment) {
  const Strides strides = dense_strides(shape, format);
  ConvTensor t{.dtype = dtype, .alignment = alignment};
  std::copy(shape.begin(), shape.end(), t.dims.begin());
  std::copy(strides.begin(), strides.end(), t.strides.begin());
  return t;
}

ConvKey conv2d_key(ConvPass pass, const Conv2dGeometry& g, MemoryFormat format, DType dtype) {
  ConvKey key = conv_key_of_settings();
  key.pass = pass;
  key.x = conv2d_tensor(g.x_shape(), format, dtype);
  key.w = conv2d_tensor(g.w_shape(), format, dtype);
  key.y = conv2d_tensor(g.y_shape(), format, dtype);
  key.stride = {g.stride.rows, g.stride.cols};
  key.pad = {g.pad.rows, g.pad.cols};
  key.dilation = {g.dilation.rows, g.dilation.cols};
  key.groups = g.groups;
  key.tf32 = key.tf32 && dtype == kF32;
  return key;
}

}  // namespace lathe
