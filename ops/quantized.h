// Arithmetic in 8-bit integers, for inference. quantized.cpp: checks; quantized_cpu.cpp: loops over
// elements; conv/cpu/quantized_conv2d_cpu.cpp: the convolution on any processor;
// conv/cpu/quantized_conv2d_dnnl.cpp: oneDNN's, for processors with VNNI.
//
// A quantised tensor has dtype u8 or i8 and a scale, which is a number: the integer q stands for
// q * scale. The integer 0 stands for 0, so padding with zeros is exact. u8 is for tensors without
// negative values, as after a relu. graph/quantize/ turns a graph in f32 into one of these ops.
//
// Sums of products are exact: every processor keeps them in 32 bits. Without VNNI our own loops
// run, because oneDNN's kernels would add pairs of products in 16 bits, which saturates.
//
// All these ops run on a CPU only and have no gradient.
// throws: DTypeError, ShapeError; ValueError for a scale that is not above 0 and finite, or if
// x_scale * w_scale / y_scale or residual_scale / y_scale is not finite in f32 (y_scale counts as 1
// for a result in f32); DeviceError for a tensor on a GPU.
// ref: Jacob et al. 2018 (arXiv:1712.05877); oneDNN, "Nuances of int8 Computations".
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/pool2d.h"

namespace lathe {

/// q = round(x / scale), with ties to even, clamped to the range of `dtype`. NaN gives 0. Keeps x's
/// order in memory.
///   x  floating, computed in f32     dtype  kU8 or kI8     →  of x's shape
/// ref: ONNX QuantizeLinear with a zero point of 0.
LATHE_API Tensor quantize(const Tensor& x, double scale, DType dtype);

/// x = q * scale, in f32.
///   q  u8 or i8, any shape     →  of q's shape
/// ref: ONNX DequantizeLinear with a zero point of 0.
LATHE_API Tensor dequantize(const Tensor& q, double scale);

/// The scales of a quantised layer, and what follows its sums.
struct QuantizedEpilogue {
  Tensor residual = {};       // u8 or i8 in the result's shape, added to it; or undefined
  double x_scale = 1;         // of the input
  double residual_scale = 1;  // of the residual
  double y_scale = 1;         // of a u8 or i8 result
  DType dtype = DType::kF32;  // of the result: kU8, kI8 or kF32
  bool relu = false;
};

/// Convolution of quantised images with quantised filters.
///   y = sum(x * w) * x_scale * w_scale[k] + bias[k] + residual * residual_scale, then relu if
///   then.relu is set, then quantize(y, y_scale, dtype) unless dtype is kF32
///   x  [N,C,H,W] u8 or i8     w  [K,C/groups,R,S] i8     w_scale  [K] f32     bias  [K] f32
///   →  [N,K,P,Q] as conv2d, in the order of NHWC
/// The sum is exact; the other steps are computed in f32. All kernels give the same integers, with
/// two exceptions:
///   - If y / y_scale lies in the middle between two integers, up to rounding, kernels may round to
///     different ones.
///   - If a term of y / y_scale is not finite in f32, kernels may give different integers.
///     Infinities that cancel give 0.
/// With more than 65536 channels K, Lathe's own loops run, which are slower than oneDNN's kernels.
/// throws: ShapeError for sums of more than 65536 products; DTypeError; DeviceError for a tensor on
/// a GPU; ValueError for a scale that is not above 0 and finite.
LATHE_API Tensor quantized_conv2d(const Tensor& x, const Tensor& w, const Tensor& w_scale,
                                  const Conv2dOptions& opt, const QuantizedEpilogue& then);

/// A linear layer in integers: x * w^T in i32, then what `then` asks for, as in quantized_conv2d.
///   x  […,in] u8 or i8     w  [out,in] i8     w_scale  [out] f32     bias  [out] f32 or undefined
///   →  […,out]
LATHE_API Tensor quantized_linear(const Tensor& x, const Tensor& w, const Tensor& w_scale,
                                  const Tensor& bias, const QuantizedEpilogue& then);

/// max_pool2d of a quantised tensor. The result has x's scale.
///   x  [N,C,H,W] u8 or i8     →  [N,C,P,Q] in the order of NHWC
/// A window that holds only padding gives the smallest integer of the dtype. Only ceil_mode can
/// make such windows.
LATHE_API Tensor quantized_max_pool2d(const Tensor& x, const MaxPool2dOptions& options);

struct Conv2dGeometry;

namespace cpu {
/// y and x are dense, in the same order.
void quantize(const Tensor& y, const Tensor& x, float scale);
void dequantize(const Tensor& y, const Tensor& q, float scale);
/// to[i] = from[i] / scale, rounded and clamped as in quantize().
void quantize_row(uint8_t* to, const float* from, float scale, int64_t n);
void quantize_row(int8_t* to, const float* from, float scale, int64_t n);
/// y and x are NHWC. The options are those of max_pool2d, with a stride above 0.
void quantized_max_pool2d(const Tensor& y, const Tensor& x, const MaxPool2dOptions& opt);
/// x and the residual are NHWC, w is row-major. The quotients of the scales are finite in f32.
Tensor quantized_conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                        const Tensor& w_scale, const Tensor& bias, const QuantizedEpilogue& then);
}  // namespace cpu

}  // namespace lathe
