// What conv2d_cpu.cpp is built on: convolution of dense tensors of one dtype. Nothing is checked
// here, and no size may be trivial (g.is_trivial()).
#pragma once

#include <optional>
#include <string>

#include "lathe/core/config.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/cpu/conv2d_winograd_cpu.h"

namespace lathe::cpu {

/// The fast path of this process, for `lathe info` and the first lines of a training.
struct OneDnnInfo {
  std::string library;    // "oneDNN 3.7.2", the one that was loaded; empty in a build without it
  std::string problem;    // why it cannot be loaded; convolutions then throw this
  bool winograd = false;  // it has Winograd, for row-major images; oneDNN 3 has none for x86
  bool bf16 = false;      // fast_conv2d_takes(kBF16)
};
LATHE_API OneDnnInfo onednn_info();

/// The tile where our own Winograd computes the forward pass and the filters' gradient.
std::optional<WinogradTile> conv2d_winograd_tile(const Conv2dGeometry& g, const Tensor& x);

/// The dtypes of the fast path: f32, and bf16 where oneDNN and the processor have it.
bool fast_conv2d_takes(DType dtype) noexcept;
/// True where it multiplies bf16 in tile registers (AMX).
bool fast_conv2d_has_tiles() noexcept;

/// The fast path: conv2d_dnnl.cpp, or conv2d_dnnl_none.cpp in a build without oneDNN. x and y (and
/// their gradients) are both row-major or both NHWC; w is row-major or channels-last; bias is dense
/// or undefined.
void fast_conv2d_forward(const Conv2dGeometry& g, const Tensor& y, const Tensor& x, const Tensor& w,
                         const Tensor& bias);
void fast_conv2d_backward_input(const Conv2dGeometry& g, const Tensor& dx, const Tensor& dy,
                                const Tensor& w);
void fast_conv2d_backward_weight(const Conv2dGeometry& g, const Tensor& dw, const Tensor& dy,
                                 const Tensor& x);

/// f32 and f64 by im2col and matrix products, all tensors in any dense order
/// (conv2d_im2col_cpu.cpp). The order of summation depends on the sizes alone, not on the number of
/// threads.
void im2col_forward(const Conv2dGeometry& g, const Tensor& y, const Tensor& x, const Tensor& w,
                    const Tensor& bias);
void im2col_backward_input(const Conv2dGeometry& g, const Tensor& dx, const Tensor& dy,
                           const Tensor& w);
void im2col_backward_weight(const Conv2dGeometry& g, const Tensor& dw, const Tensor& dy,
                            const Tensor& x);

}  // namespace lathe::cpu
