// 3x3 convolutions with stride 1 or 2 by Winograd, f32 and NHWC, without reorders.
//
// A block of tiles goes through input transform, products and output transform while it is in the
// second-level cache:
//   V[s] = B^T d B  [tiles, in]   for each of the 36 positions s of F(4x4,3x3); of F(2x2,3x3): 16,
//                                 of stride 2: 81, several of which share a filter U
//   M[s] = V[s] U[s]  [tiles, out],  U = G g G^T of the filters, 64 in and 64 out at a time
//   y    = A^T M A + bias
// The input gradient is the convolution of dy with the filters turned by 180 degrees. The weight
// gradient is P[s] = (A dy A^T)[s]^T V[s], summed over the tiles; dw = G^T P G. The matrices and
// the choice of their points: winograd_transforms.h. Where Winograd is taken: conv2d_choice_cpu.h.
//
// Results have the same bits for any number of threads: no sum is divided among them but that of
// the weight gradient, whose parts depend on the sizes alone.
#pragma once

#include <cstdint>

#include "lathe/ops/batch_norm_conv2d.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/fused_conv2d.h"

namespace lathe::cpu {

/// Outputs along each side of a tile: F(2x2,3x3) or F(4x4,3x3). With stride 2 it is always 4.
enum class WinogradTile : uint8_t { k2, k4 };

/// True for what the passes below compute: 3x3, stride 1 or 2, no dilation, one group. Any padding.
bool winograd_takes(const Conv2dGeometry& g);

/// x, y and their gradients: f32, NHWC. w and dw: f32, dense in any order. bias: dense or
/// undefined. `then` is done to each tile as it is written; its residual is f32, NHWC. *moments
/// becomes mean and variance of y's channels, f32 [2,K] (channel_moments_cpu.h), if it is not null.
/// `before` is applied to x as it is read; padding stays 0. No size is trivial.
void winograd_forward(const Conv2dGeometry& g, WinogradTile tile, const Tensor& y, const Tensor& x,
                      const Tensor& w, const Tensor& bias, const Conv2dEpilogue& then = {},
                      Tensor* moments = nullptr, const PixelNorm& before = {});
void winograd_backward_input(const Conv2dGeometry& g, WinogradTile tile, const Tensor& dx,
                             const Tensor& dy, const Tensor& w);
void winograd_backward_weight(const Conv2dGeometry& g, WinogradTile tile, const Tensor& dw,
                              const Tensor& dy, const Tensor& x, const PixelNorm& before = {});

}  // namespace lathe::cpu
