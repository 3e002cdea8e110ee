// A CPU's ways to compute a convolution (conv_search/conv_ways.h): which one the rule takes for
// given sizes, which others there are, and each of them. conv2d_cpu.cpp runs the rule's;
// conv2d_engines_cpu.h times them where that is asked for.
#pragma once

#include <optional>
#include <vector>

#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/conv2d_winograd_cpu.h"
#include "lathe/ops/conv_pass.h"
#include "lathe/ops/conv_search/conv_ways.h"
#include "lathe/ops/fused_conv2d.h"

namespace lathe::cpu {

/// The tile of a way that is our own Winograd.
std::optional<WinogradTile> winograd_tile(ConvWay way);

/// True where the fast path (conv2d_passes_cpu.h) computes the passes in this dtype.
bool conv2d_is_fast(const Conv2dGeometry& g, DType dtype);

/// The way that the sizes alone choose, under cpu::conv_exact() as it is now.
///   format, dtype     of the images, as they are computed
///   constant_filters  as in winograd_pays
ConvWay conv2d_rule(const Conv2dGeometry& g, MemoryFormat format, DType dtype,
                    bool constant_filters = false);

/// All ways that compute this pass in f32 under cpu::conv_exact(), each of them once. First what
/// the rule chooses (`rule`; of kByLibrary, what that is); last kIm2col. Never kByLibrary.
///   x  the images, or for kBackwardInput dy     w  the filters or dw
/// throws: Error if the rule chooses oneDNN, and that cannot be loaded; OutOfMemoryError.
std::vector<ConvWay> conv2d_ways(ConvPass pass, const Conv2dGeometry& g, const Tensor& x,
                                 const Tensor& w, ConvWay rule);

/// False for what is never among the above, so that it must not be run. Costs nothing: it asks
/// oneDNN neither for itself nor for its Winograd, which throw an Error where they are not there.
bool conv2d_may_run(ConvWay way, const Conv2dGeometry& g, MemoryFormat format);

/// One way; it must be among the above, or what the rule chooses. Tensors as conv2d_passes_cpu.h
/// has them; no size is trivial. *moments as conv2d_forward_with_moments leaves them, if it is not
/// null.
void conv2d_forward_by(ConvWay way, const Conv2dGeometry& g, const Tensor& y, const Tensor& x,
                       const Tensor& w, const Tensor& bias, const Conv2dEpilogue& then,
                       Tensor* moments);
void conv2d_backward_input_by(ConvWay way, const Conv2dGeometry& g, const Tensor& dx,
                              const Tensor& dy, const Tensor& w);
void conv2d_backward_weight_by(ConvWay way, const Conv2dGeometry& g, const Tensor& dw,
                               const Tensor& dy, const Tensor& x);

}  // namespace lathe::cpu
