// The passes by the engine that is chosen. Contracts: conv2d_engines_cpu.h.
#include "lathe/ops/conv/cpu/conv2d_engines_cpu.h"

#include "lathe/ops/conv/cpu/conv2d_amx_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_depthwise_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_dnnl.h"
#include "lathe/ops/conv/cpu/conv2d_epilogue_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_im2col_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_pointwise_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_winograd_cpu.h"

namespace lathe::cpu {

void conv2d_forward_by(const CpuChoice& choice, const Conv2dGeometry& g, const Tensor& y,
                       const Tensor& x, const Tensor& w, const Tensor& bias,
                       const Conv2dEpilogue& then, Tensor* moments) {
  if (const auto tile = winograd_tile(choice.engine)) {
    return winograd_forward(g, *tile, y, x, w, bias, then, moments);
  }
  if (choice.engine == CpuEngine::kProducts) {
    pointwise_forward(g, y, x, w, bias, moments);
  } else if (choice.engine == CpuEngine::kDepthwise) {
    depthwise_forward(g, y, x, w, bias);
  } else if (choice.engine == CpuEngine::kIm2col) {
    im2col_forward(g, y, x, w, bias);
  } else {
    onednn_forward(choice, g, y, x, w, bias);
  }
  apply_epilogue(y, then);
}

void conv2d_backward_input_by(const CpuChoice& choice, const Conv2dGeometry& g, const Tensor& dx,
                              const Tensor& dy, const Tensor& w) {
  if (const auto tile = winograd_tile(choice.engine))
    return winograd_backward_input(g, *tile, dx, dy, w);
  if (choice.engine == CpuEngine::kProducts) return pointwise_backward_input(g, dx, dy, w);
  if (choice.engine == CpuEngine::kDepthwise) return depthwise_backward_input(g, dx, dy, w);
  if (choice.engine == CpuEngine::kIm2col) return im2col_backward_input(g, dx, dy, w);
  onednn_backward_input(choice, g, dx, dy, w);
}

void conv2d_backward_weight_by(const CpuChoice& choice, const Conv2dGeometry& g, const Tensor& dw,
                               const Tensor& dy, const Tensor& x) {
  if (const auto tile = winograd_tile(choice.engine))
    return winograd_backward_weight(g, *tile, dw, dy, x);
  if (choice.engine == CpuEngine::kProducts) return pointwise_backward_weight(g, dw, dy, x);
  if (choice.engine == CpuEngine::kDepthwise) return depthwise_backward_weight(g, dw, dy, x);
  if (choice.engine == CpuEngine::kIm2col) return im2col_backward_weight(g, dw, dy, x);
  if (choice.engine == CpuEngine::kAmx) return amx_backward_weight(g, dw, dy, x);
  onednn_backward_weight(choice, g, dw, dy, x);
}

}  // namespace lathe::cpu
