// Convolution on the GPU by the portable matrix product of ops/matmul_kernels/gemm_tile.cuh: the
// three passes as implicit matrix products, one per group. It takes any strides, needs no workspace
// but the split sums of small products, and is deterministic. Contracts: conv2d.h. When it is used:
// conv2d_cuda.h.
#include "lathe/core/copy.h"
#include "lathe/ops/conv/conv2d_cuda.h"
#include "lathe/ops/conv/conv2d_operands.cuh"
#include "lathe/ops/matmul_kernels/gemm_tile.cuh"

namespace lathe::cuda {

namespace {

/// Stores y or dx: rows are pixels, columns are channels of a group. `bias`, if any, is added
/// before rounding.
template <class T>
struct PlaneResult {
  using C = ComputeType<T>;

  T* data;
  Divider<uint32_t> plane_size;
  int64_t sample_step, channel_step, pixel_step, group_channels;
  const T* bias;
  int64_t bias_step;

  LATHE_HD void operator()(int64_t group, int64_t i, int64_t j, C sum) const {
    const auto pixel = static_cast<uint32_t>(i);
    const uint32_t n = plane_size.quotient(pixel);
    const int64_t channel = group * group_channels + j;
    if (bias != nullptr) sum += C(bias[channel * bias_step]);
    data[n * sample_step + channel * channel_step +
         (pixel - n * plane_size.divisor()) * pixel_step] = T(sum);
  }
};

/// Stores dw: rows are output channels, columns are taps.
template <class T>
struct FilterResult {
  T* data;
  Taps taps;
  int64_t group_channels, k_step, c_step, r_step, s_step;

  LATHE_HD void operator()(int64_t group, int64_t i, int64_t j, ComputeType<T> sum) const {
    const Taps::At at = taps(j);
    data[(group * group_channels + i) * k_step + at.channel * c_step + at.r * r_step +
         at.s * s_step] = T(sum);
  }
};

/// Dense [N,C,H,W] in `format`.
Tensor empty_planes(const Shape& shape, MemoryFormat format, DType dtype, Device device) {
  return empty_strided(
      shape, format == kChannelsLast ? channels_last_strides(shape) : contiguous_strides(shape),
      dtype, device);
}

template <class T>
PlaneResult<T> plane_result(const Tensor& y, MemoryFormat format, int64_t groups,
                            const Tensor& bias) {
  const int64_t channels = y.dim(1), plane = y.dim(2) * y.dim(3);
  const bool nhwc = format == kChannelsLast;
  return {y.data<T>(),
          Divider<uint32_t>(plane),
          channels * plane,
          nhwc ? 1 : plane,
          nhwc ? channels : 1,
          channels / groups,
          bias.defined() ? bias.data<T>() : nullptr,
          bias.defined() ? bias.stride(0) : 0};
}

void check_size(const Conv2dGeometry& g) {
  constexpr int64_t kMost = int64_t{1} << 31;
  LATHE_CHECK(ValueError,
              g.N * g.H * g.W < kMost && g.N * g.P * g.Q < kMost && g.taps() < kMost &&
                  g.K / g.groups * g.R * g.S < kMost && g.H + 2 * g.pad.rows < kMost &&
                  g.W + 2 * g.pad.cols < kMost,
              "conv2d: the portable CUDA kernels count up to 2^31 pixels and taps (x: ",
              g.x_shape(), ", w: ", g.w_shape(), ")");
}

/// True if neighbouring channels are neighbours in memory.
bool channels_inside(const Tensor& t) { return t.stride(1) == 1 && t.dim(1) > 1; }

}  // namespace

// Rows: output pixels. Columns: output channels. Terms: taps of x.
Tensor portable_conv2d_forward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                               const Tensor& bias) {
  const MemoryFormat format = conv2d_format(x);
  Tensor y = empty_planes(g.y_shape(), format, x.dtype(), x.device());
  if (g.is_trivial()) {
    fill_values(y, 0);
    if (bias.defined()) {
      copy_values(y, alias(bias, {g.K, 1, 1}, {bias.stride(0), 0, 0}, bias.offset()));
    }
    return y;
  }
  check_size(g);
  const int64_t group_c = g.C / g.groups, group_k = g.K / g.groups;
  const bool nhwc = channels_inside(x);
  const Taps taps(group_c, g.R, g.S, nhwc);
  visit_float(x.dtype(), "conv2d", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ImageOperand<T, true> image{x.data<T>(),
                                      PlaneStrides(x),
                                      Pixels(g.P, g.Q),
                                      taps,
                                      g.stride,
                                      g.pad,
                                      g.dilation,
                                      g.H,
                                      g.W,
                                      group_c,
                                      nhwc};
    const FilterOperand<T> filter{w.data<T>(), group_k * w.stride(0), w.stride(0), w.stride(1),
                                  w.stride(2), w.stride(3),           taps};
    gemm<ComputeType<T>>(image, filter, plane_result<T>(y, format, g.groups, bias),
                         {g.N * g.P * g.Q, group_k, g.taps(), g.groups, format == kContiguous},
                         x.device());
  });
  return y;
}

// Rows: input pixels. Columns: input channels. Terms: taps of dy.
Tensor portable_conv2d_backward_input(const Conv2dGeometry& g, const Tensor& dy, const Tensor& w) {
  const MemoryFormat format = conv2d_format(dy);
  Tensor dx = empty_planes(g.x_shape(), format, dy.dtype(), dy.device());
  if (g.is_trivial()) {
    fill_values(dx, 0);
    return dx;
  }
  check_size(g);
  const int64_t group_c = g.C / g.groups, group_k = g.K / g.groups;
  const bool nhwc = channels_inside(dy);
  const Taps taps(group_k, g.R, g.S, nhwc);
  visit_float(dy.dtype(), "conv2d_input_grad", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const GradientOperand<T> gradient{dy.data<T>(),
                                      PlaneStrides(dy),
                                      Pixels(g.H, g.W),
                                      taps,
                                      Divider<uint32_t>(g.stride.rows),
                                      Divider<uint32_t>(g.stride.cols),
                                      g.pad,
                                      g.dilation,
                                      g.P,
                                      g.Q,
                                      group_k,
                                      nhwc};
    const FilterOperand<T> filter{w.data<T>(), group_k * w.stride(0), w.stride(1), w.stride(0),
                                  w.stride(2), w.stride(3),           taps};
    gemm<ComputeType<T>>(
        gradient, filter, plane_result<T>(dx, format, g.groups, {}),
        {g.N * g.H * g.W, group_c, group_k * g.R * g.S, g.groups, format == kContiguous},
        dy.device());
  });
  return dx;
}

// Rows: output channels. Columns: taps of x. Terms: output pixels, which are many: their sum is
// usually split among blocks.
Tensor portable_conv2d_backward_weight(const Conv2dGeometry& g, const Tensor& dy, const Tensor& x,
                                       MemoryFormat w_format) {
  Tensor dw = empty_planes(g.w_shape(), w_format, dy.dtype(), dy.device());
  if (g.is_trivial()) {
    fill_values(dw, 0);
    return dw;
  }
  check_size(g);
  const int64_t group_c = g.C / g.groups, group_k = g.K / g.groups;
  const bool nhwc = channels_inside(x);
  const Taps taps(group_c, g.R, g.S, nhwc);
  visit_float(dy.dtype(), "conv2d_weight_grad", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelOperand<T> gradient{dy.data<T>(), PlaneStrides(dy), Pixels(g.P, g.Q), group_k,
                                     !channels_inside(dy)};
    const ImageOperand<T, false> image{x.data<T>(),
                                       PlaneStrides(x),
                                       Pixels(g.P, g.Q),
                                       taps,
                                       g.stride,
                                       g.pad,
                                       g.dilation,
                                       g.H,
                                       g.W,
                                       group_c,
                                       !nhwc};
    gemm<ComputeType<T>>(gradient, image,
                         FilterResult<T>{dw.data<T>(), taps, group_k, dw.stride(0), dw.stride(1),
                                         dw.stride(2), dw.stride(3)},
                         {group_k, g.taps(), g.N * g.P * g.Q, g.groups}, dy.device());
  });
  return dw;
}

}  // namespace lathe::cuda
