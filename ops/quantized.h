// Arithmetic in 8-bit integers, for inference. Here: the contracts. quantized.cpp: checks;
// quantized_cpu.cpp: loops over elements; conv/cpu/quantized_conv2d_cpu.cpp: the convolution on any
// processor; conv/cpu/quantized_conv2d_dnnl.cpp: oneDNN's, for processors with VNNI.
//
// A quantised tensor is of u8 or i8, and a number, its scale, belongs to it: the integer q stands
// for q * scale. Zero stands for zero, so that padding needs no care. u8 is for tensors without
// negative values, as after a relu. graph/quantize/ makes a graph of these ops out of one in f32.
//
// Sums of products are exact: they are kept in 32 bits on every processor. Without VNNI oneDNN's
// kernels add pairs of products in 16 bits, which saturates; our own loops run there.
//
// All of them run on a CPU, and none has a gradient.
// throws: DTypeError, ShapeError; ValueError for a scale that is not above 0 and finite, and where
// x_scale * w_scale / y_scale or residual_scale / y_scale is not finite in f32 (y_scale counts as 1
// for a result in f32); DeviceError for a tensor on a GPU.
// ref: Jacob et al. 2018 (arXiv:1712.05877); oneDNN, "Nuances of int8 Computations".
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/pool2d.h"

namespace lathe {

/// q = round(x / scale), the nearest even integer at ties, cut to what `dtype` holds. NaN gives 0.
/// Keeps x's order in memory.
///   x  floating, computed in f32     dtype  kU8 or kI8     →  of x's shape
/// ref: ONNX QuantizeLinear with a zero point of 0.
LATHE_API Tensor quantize(const Tensor& x, double scale, DType dtype);

/// x = q * scale, in f32.
///   q  u8 or i8, any shape     →  of q's shape
/// ref: ONNX DequantizeLinear with a zero point of 0.
LATHE_API Tensor dequantize(const Tensor& q, double scale);

/// The scales of a quantised layer, and what follows its sums.
struct QuantizedEpilogue {
  Tensor residual = {};       // u8 or i8, of the result's shape, or undefined: is added
  double x_scale = 1;         // of the input
  double residual_scale = 1;  // of the residual
  double y_scale = 1;         // of a u8 or i8 result
  DType dtype = DType::kF32;  // of the result: kU8, kI8 or kF32
  bool relu = false;
};

/// Convolution of quantised images with quantised filters.
///   y = sum(x * w) * x_scale * w_scale[k] + bias[k] + residual * residual_scale, relu of that if
///   asked for; then as quantize(y, y_scale, dtype) would, or y itself for kF32.
///   x  [N,C,H,W] u8 or i8     w  [K,C/groups,R,S] i8     w_scale  [K] f32     bias  [K] f32
///   →  [N,K,P,Q] as conv2d, in the order of NHWC
/// The sum is exact. What follows it is computed in f32: a y that lies within rounding of the
/// middle between two integers may become either, by backend. At most 65536 products are added up.
/// Integers are wrong by no other cause, as long as bias / y_scale and what is added to it are
/// finite in f32: infinities that cancel out give 0.
/// With more than 65536 channels K our own loops run on every processor, which are slower: oneDNN
/// keeps 16 bytes and more for each channel of each size. So it is in a linear layer.
LATHE_API Tensor quantized_conv2d(const Tensor& x, const Tensor& w, const Tensor& w_scale,
                                  const Conv2dOptions& opt, const QuantizedEpilogue& then);

/// The same for a linear layer: y = x * w^T.
///   x  […,in] u8 or i8     w  [out,in] i8     w_scale  [out] f32     bias  [out] f32 or undefined
///   →  […,out]
LATHE_API Tensor quantized_linear(const Tensor& x, const Tensor& w, const Tensor& w_scale,
                                  const Tensor& bias, const QuantizedEpilogue& then);

/// max_pool2d of a quantised tensor; its scale stays.
///   x  [N,C,H,W] u8 or i8     →  [N,C,P,Q] in the order of NHWC
/// A window of padding alone, which only ceil_mode could make, gives the least integer.
LATHE_API Tensor quantized_max_pool2d(const Tensor& x, const MaxPool2dOptions& options);

struct Conv2dGeometry;

namespace cpu {
/// y and x: dense, in the same order.
void quantize(const Tensor& y, const Tensor& x, float scale);
void dequantize(const Tensor& y, const Tensor& q, float scale);
/// to[i] = from[i] / scale as quantize() has it.
void quantize_row(uint8_t* to, const float* from, float scale, int64_t n);
void quantize_row(int8_t* to, const float* from, float scale, int64_t n);
/// y and x: NHWC; the options as max_pool2d has them, the stride not 0.
void quantized_max_pool2d(const Tensor& y, const Tensor& x, const MaxPool2dOptions& opt);
/// x and the residual: NHWC; w: row-major. The quotients of the scales are finite in f32.
Tensor quantized_conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                        const Tensor& w_scale, const Tensor& bias, const QuantizedEpilogue& then);
}  // namespace cpu

}  // namespace lathe
