// The rule and the passes of a CPU's engines. Contracts: conv2d_engines_cpu.h.
#include "lathe/ops/conv/cpu/conv2d_engines_cpu.h"

#include <algorithm>
#include <climits>
#include <optional>

#include "lathe/ops/conv/cpu/conv2d_dnnl.h"
#include "lathe/ops/conv/cpu/conv2d_epilogue_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_pointwise_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_winograd_cpu.h"
#include "lathe/ops/conv2d.h"

namespace lathe::cpu {

std::optional<WinogradTile> winograd_tile(CpuEngine way) {
  if (way == CpuEngine::kWinograd4) return WinogradTile::k4;
  if (way == CpuEngine::kWinograd2) return WinogradTile::k2;
  return {};
}

bool conv2d_is_fast(const Conv2dGeometry& g, DType dtype) {
  constexpr int64_t kMost = INT_MAX;  // oneDNN keeps these numbers as int
  const bool fits = std::max({g.stride.rows, g.stride.cols, g.pad.rows, g.pad.cols, g.dilation.rows,
                              g.dilation.cols}) <= kMost;
  return fits && fast_conv2d_takes(dtype);
}

CpuEngine conv2d_rule(const Conv2dGeometry& g, MemoryFormat format, DType dtype,
                      bool constant_filters) {
  if (format == kChannelsLast && dtype == kF32) {
    const auto tile = conv_exact() ? std::nullopt : winograd_pays(g, constant_filters);
    if (tile) return *tile == WinogradTile::k4 ? CpuEngine::kWinograd4 : CpuEngine::kWinograd2;
    if (pointwise_takes(g)) return CpuEngine::kProducts;
  }
  return conv2d_is_fast(g, dtype) ? CpuEngine::kByLibrary : CpuEngine::kIm2col;
}

void conv2d_forward_by(CpuEngine way, const Conv2dGeometry& g, const Tensor& y, const Tensor& x,
                       const Tensor& w, const Tensor& bias, const Conv2dEpilogue& then,
                       Tensor* moments) {
  if (const auto tile = winograd_tile(way)) {
    return winograd_forward(g, *tile, y, x, w, bias, then, moments);
  }
  if (way == CpuEngine::kProducts) {
    pointwise_forward(g, y, x, w, bias, moments);
  } else if (way == CpuEngine::kIm2col) {
    im2col_forward(g, y, x, w, bias);
  } else {
    fast_conv2d_forward(g, y, x, w, bias);
  }
  apply_epilogue(y, then);
}

void conv2d_backward_input_by(CpuEngine way, const Conv2dGeometry& g, const Tensor& dx,
                              const Tensor& dy, const Tensor& w) {
  if (const auto tile = winograd_tile(way)) return winograd_backward_input(g, *tile, dx, dy, w);
  if (way == CpuEngine::kProducts) return pointwise_backward_input(g, dx, dy, w);
  if (way == CpuEngine::kIm2col) return im2col_backward_input(g, dx, dy, w);
  fast_conv2d_backward_input(g, dx, dy, w);
}

void conv2d_backward_weight_by(CpuEngine way, const Conv2dGeometry& g, const Tensor& dw,
                               const Tensor& dy, const Tensor& x) {
  if (const auto tile = winograd_tile(way)) return winograd_backward_weight(g, *tile, dw, dy, x);
  if (way == CpuEngine::kProducts) return pointwise_backward_weight(g, dw, dy, x);
  if (way == CpuEngine::kIm2col) return im2col_backward_weight(g, dw, dy, x);
  fast_conv2d_backward_weight(g, dw, dy, x);
}

}  // namespace lathe::cpu
