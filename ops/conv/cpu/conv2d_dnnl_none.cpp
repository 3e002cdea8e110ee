// The fast path of a build without oneDNN: f32 by im2col. Contracts: conv2d_dnnl.h.
#include "lathe/ops/conv/cpu/conv2d_dnnl.h"

namespace lathe::cpu {

OneDnnInfo onednn_info() { return {}; }

bool fast_conv2d_takes(DType dtype) noexcept { return dtype == kF32; }
bool fast_conv2d_has_tiles() noexcept { return false; }

void fast_conv2d_forward(const Conv2dGeometry& g, const Tensor& y, const Tensor& x, const Tensor& w,
                         const Tensor& bias) {
  im2col_forward(g, y, x, w, bias);
}

void fast_conv2d_backward_input(const Conv2dGeometry& g, const Tensor& dx, const Tensor& dy,
                                const Tensor& w) {
  im2col_backward_input(g, dx, dy, w);
}

void fast_conv2d_backward_weight(const Conv2dGeometry& g, const Tensor& dw, const Tensor& dy,
                                 const Tensor& x) {
  im2col_backward_weight(g, dw, dy, x);
}

}  // namespace lathe::cpu
