// A CPU's engines to compute a convolution, and which one the rule takes for given sizes.
// conv2d_cpu.cpp runs it.
#pragma once

#include <cstdint>
#include <optional>

#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/cpu/conv2d_winograd_cpu.h"
#include "lathe/ops/fused_conv2d.h"

namespace lathe::cpu {

enum class CpuEngine : uint8_t {
  kByLibrary,  // as oneDNN's rule chooses (conv2d_primitive_dnnl.cpp); in a build without it im2col
  kWinograd4,  // our F(4x4,3x3)
  kWinograd2,  // our F(2x2,3x3)
  kProducts,   // our matrix products of 1x1 filters
  kIm2col,     // our copies of all patches, and products
};

/// The tile of a engine that is our own Winograd.
std::optional<WinogradTile> winograd_tile(CpuEngine engine);

/// True where the fast path (conv2d_dnnl.h) computes the passes in this dtype.
bool conv2d_is_fast(const Conv2dGeometry& g, DType dtype);

/// The engine that the sizes alone choose, under cpu::conv_exact() as it is now.
///   format, dtype     of the images, as they are computed
///   constant_filters  as in winograd_pays
CpuEngine conv2d_rule(const Conv2dGeometry& g, MemoryFormat format, DType dtype,
                      bool constant_filters = false);

/// The passes in a engine that takes these sizes. Tensors as conv2d_dnnl.h has them; no size is
/// trivial. *moments as conv2d_forward_with_moments leaves them, if it is not null.
void conv2d_forward_by(CpuEngine engine, const Conv2dGeometry& g, const Tensor& y, const Tensor& x,
                       const Tensor& w, const Tensor& bias, const Conv2dEpilogue& then,
                       Tensor* moments);
void conv2d_backward_input_by(CpuEngine engine, const Conv2dGeometry& g, const Tensor& dx,
                              const Tensor& dy, const Tensor& w);
void conv2d_backward_weight_by(CpuEngine engine, const Conv2dGeometry& g, const Tensor& dw,
                               const Tensor& dy, const Tensor& x);

}  // namespace lathe::cpu
