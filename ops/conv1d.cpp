// 1-d convolution; see conv1d.h. The gradients are conv2d's.
#include "lathe/ops/conv1d.h"

#include "lathe/ops/conv2d.h"
#include "lathe/ops/views.h"

namespace lathe {

Tensor conv1d(const Tensor& x, const Tensor& w, const Conv1dOptions& opt) {
  LATHE_CHECK(ShapeError, x.ndim() == 3 && w.ndim() == 3,
              "conv1d: x and w must be [N,C,W] and [K,C/groups,S] (x: ", x, ", w: ", w, ")");
  const Tensor y = conv2d(unsqueeze(x, 2), unsqueeze(w, 2),
                          {.bias = opt.bias,
                           .stride = {1, opt.stride},
                           .pad = {0, opt.pad},
                           .dilation = {1, opt.dilation},
                           .groups = opt.groups});
  return squeeze(y, 2);
}

}  // namespace lathe
