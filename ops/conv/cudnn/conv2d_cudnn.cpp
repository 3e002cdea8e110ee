// Convolution on the GPU by cuDNN: the three passes. Each brings its tensors into the form that
// cuDNN wants, lets the search (conv_search.h) run its operation graph (conv2d_graph_cudnn.cpp) on
// the best engine, and brings the result back. Contracts: conv2d.h.
//
// Order in memory: NHWC tensors with filters [K,R,S,C], or NCHW ones with filters [K,C,R,S]; the
// order of x (of dy for the input gradient) decides. Tensors in another order are copied first. In
// a training step in NHWC nothing is copied if the filters are stored channels-last
// (Module::to(kChannelsLast)); else each filter is copied twice and its gradient once.
// Channels: tensor cores take whole groups of 16 bytes. Where NHWC channels are no multiple of that
// (the 3 of an image), zeros are added, and what they produce is cut off. The first layer's filter
// is padded at each call: a training step reads it in one pass only and then changes it, so a
// padded copy kept between calls would never be read twice.
#include <algorithm>
#include <optional>

#include "lathe/core/alignment.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/log.h"
#include "lathe/ops/conv/conv2d_cuda.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/cudnn/conv2d_engines_cudnn.h"
#include "lathe/ops/conv/search/conv2d_key.h"
#include "lathe/ops/conv/search/cudnn_settings.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/inplace.h"

namespace lathe::cuda {

namespace {

bool takes(const Conv2dGeometry& g, DType dtype) {
  return cudnn::enabled() && dtype != kF64 && !g.is_trivial();
}

/// In NHWC cuDNN has engines with tensor cores only for addresses that are multiples of 16 bytes.
bool is_aligned(const Tensor& t, MemoryFormat format) {
  return format != kChannelsLast || !conv2d_uses_tensor_cores(t.dtype()) ||
         alignment_of(t.raw_data()) >= 16;
}

/// `t` dense in `format`, at an aligned address, with zeros where `shape` is larger.
Tensor input(const Tensor& t, const Shape& shape, MemoryFormat format) {
  if (t.shape() == shape && t.is_contiguous(format) && is_aligned(t, format)) return t;
  const Tensor room = empty_in(format, shape, t.dtype(), t.device());
  for (int d = 0; d < t.ndim(); ++d) {
    if (shape[d] == t.dim(d)) continue;
    Shape rest = shape;
    rest[d] = shape[d] - t.dim(d);
    fill_values(alias(room, rest, room.strides(), t.dim(d) * room.stride(d)), 0);
  }
  copy_values(alias(room, t.shape(), room.strides(), 0), t);
  return room;
}

/// Where cuDNN writes: the result itself, or memory from which the result is copied.
struct Output {
  Output(const Shape& shape, const Shape& padded_shape, MemoryFormat result_format,
         MemoryFormat format, const Tensor& like)
      : result(empty_in(result_format, shape, like.dtype(), like.device())),
        room(shape == padded_shape && result.is_contiguous(format)
                 ? result
                 : empty_in(format, padded_shape, like.dtype(), like.device())) {}

  const Tensor& finish() const {
    if (!room.is_same(result)) {
      copy_values(result, alias(room, result.shape(), room.strides(), 0));
    }
    return result;
  }

  Tensor result, room;
};

/// Free bytes of the device; nothing if an earlier error has ended all work on it.
std::optional<size_t> driver_memory(Device device) {
  const DeviceScope on(device);
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) return free;
  cudaGetLastError();
  return std::nullopt;
}

/// cuDNN allocates memory outside our allocator, mainly for its code. If it may have failed for
/// lack of memory, this empties our cache and returns true. Call it in a handler: it rethrows the
/// exception if the device is lost.
bool made_room(Device device) {
  constexpr size_t kEnough = 256 << 20;
  const std::optional<size_t> free = driver_memory(device);
  if (!free) throw;
  if (*free >= kEnough) return false;
  empty_cache();
  return true;
}

void warn_of(const ConvKey& key, const Error& e) {
  const std::string text = concat(key);
  warn_once(text, concat("conv2d: cuDNN does not compute this: ", e.message(), " (", text, ")"));
}

/// Computes the pass into its output. Returns false if cuDNN cannot; the reason is logged. In
/// deterministic mode it is an error if a chosen engine fails, because our own kernel gives other
/// bits; it computes only what cuDNN has no engine for.
bool run(ConvPass pass, const Conv2dGeometry& g, MemoryFormat format,
         const Conv2dOperands& operands) {
  const Device device = operands.x.device();
  const ConvKey key = conv2d_key_of(pass, g, format, operands);
  Conv2dPrepared& prepared = conv2d_prepared(key, device);
  if (prepared.backoff.skips()) return false;
  for (bool first = true;; first = false) {
    try {
      Conv2dEngines engines(key, operands, prepared);
      conv_search().run(key, engines, prepared.memo);
      prepared.backoff.succeeded();
      return true;
    } catch (const OutOfMemoryError& e) {  // there may be enough the next time
      if (key.deterministic()) throw;
      prepared.backoff.failed();
      warn_of(key, e);
    } catch (const ShapeError& e) {  // our own checks have passed: it is too large for cuDNN
      prepared.backoff.failed_for_good();
      warn_of(key, e);
    } catch (const CudaError& e) {
      const bool capturing = is_capturing(current_stream(device));
      if (!capturing && made_room(device) && first) continue;
      const bool takes_none = prepared.graph && prepared.plans.empty() && !capturing;
      if (key.deterministic() && (!takes_none || conv_search().find(key))) throw;
      if (takes_none) {
        prepared.backoff.failed_for_good();
      } else {
        prepared.backoff.failed();
      }
      warn_of(key, e);
    }
    return false;
  }
}

}  // namespace

Tensor conv2d_forward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                      const Tensor& bias) {
  if (!takes(g, x.dtype())) return portable_conv2d_forward(g, x, w, bias);
  const MemoryFormat format = conv2d_format(x);
  const Conv2dGeometry sizes = conv2d_padded(g, format, x.dtype());
  const Output y(g.y_shape(), sizes.y_shape(), format, format, x);
  Conv2dOperands operands{
      .x = input(x, sizes.x_shape(), format), .w = input(w, sizes.w_shape(), format), .y = y.room};
  if (bias.defined()) {
    operands.bias = input(bias, {sizes.K}, kContiguous);
    if (run(ConvPass::kForward, sizes, format, operands)) return y.finish();
    operands.bias = {};  // no engine adds it in the same kernel
  }
  if (!run(ConvPass::kForward, sizes, format, operands)) {
    return portable_conv2d_forward(g, x, w, bias);
  }
  if (bias.defined()) {
    add_(y.finish(), alias(bias, {g.K, 1, 1}, {bias.stride(0), 0, 0}, bias.offset()));
    return y.result;
  }
  return y.finish();
}

Tensor conv2d_backward_input(const Conv2dGeometry& g, const Tensor& dy, const Tensor& w) {
  if (!takes(g, dy.dtype())) return portable_conv2d_backward_input(g, dy, w);
  const MemoryFormat format = conv2d_format(dy);
  const Conv2dGeometry sizes = conv2d_padded(g, format, dy.dtype());
  const Output dx(g.x_shape(), sizes.x_shape(), format, format, dy);
  const Conv2dOperands operands{.x = dx.room,
                                .w = input(w, sizes.w_shape(), format),
                                .y = input(dy, sizes.y_shape(), format)};
  if (!run(ConvPass::kBackwardInput, sizes, format, operands)) {
    return portable_conv2d_backward_input(g, dy, w);
  }
  return dx.finish();
}

// Runs cuDNN's convolution backward filter: conv2d_graph() builds its graph with
// OperationGraph::convolution_backward_filter (core/gpu/cudnn_graph.cpp).
Tensor conv2d_backward_weight(const Conv2dGeometry& g, const Tensor& dy, const Tensor& x,
                              MemoryFormat w_format) {
  if (!takes(g, dy.dtype())) return portable_conv2d_backward_weight(g, dy, x, w_format);
  const MemoryFormat format = conv2d_format(x);
  const Conv2dGeometry sizes = conv2d_padded(g, format, dy.dtype());
  const Output dw(g.w_shape(), sizes.w_shape(), w_format, format, dy);
  const Conv2dOperands operands{.x = input(x, sizes.x_shape(), format),
                                .w = dw.room,
                                .y = input(dy, sizes.y_shape(), format)};
  if (!run(ConvPass::kBackwardWeight, sizes, format, operands)) {
    return portable_conv2d_backward_weight(g, dy, x, w_format);
  }
  return dw.finish();
}

}  // namespace lathe::cuda
