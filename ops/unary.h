// Elementwise ops of one operand. unary.cpp: checks and gradients;
// elementwise_kernels/unary_cpu.cpp, unary_cuda.cu: kernels; unary_math.h: the arithmetic, shared
// by host and device. The result has x's shape and stride order. Half types are computed in f32.
// "float" ops turn integers and bool into the default dtype; the others keep the dtype.
#pragma once

#include <optional>

#include "lathe/core/tensor.h"

namespace lathe {

enum class UnaryOp : uint8_t {
  // the dtype stays
  kNeg,
  kAbs,
  kSign,
  kSquare,
  kRelu,
  kClamp,
  kFloor,
  kCeil,
  kRound,
  kTrunc,
  // "float" ops
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kLog2,
  kLog10,
  kExp2,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kTanh,
  kSigmoid,
  kErf,
  kLeakyRelu,
  kElu,
  kGelu,
  kGeluTanh,
  kSilu,
  kSoftplus,
  // → bool
  kIsNan,
  kIsInf,
  kIsFinite,
};

struct UnaryParams {
  // clamp: low and high, integers for an integer x; leaky_relu: slope (a); elu: alpha (a);
  // softplus: beta and threshold
  Scalar a = 0.0, b = 0.0;
};

// clang-format off
LATHE_API Tensor neg(const Tensor& x);         // -x                        twice differentiable; not for bool
LATHE_API Tensor abs(const Tensor& x);         // |x|                       gradient 0 at 0 and at NaN
LATHE_API Tensor sign(const Tensor& x);        // -1, 0, 1; 0 of NaN        gradient 0
LATHE_API Tensor square(const Tensor& x);      // x^2                       twice differentiable
LATHE_API Tensor floor(const Tensor& x);       // gradient 0, as for ceil, round, trunc
LATHE_API Tensor ceil(const Tensor& x);
LATHE_API Tensor round(const Tensor& x);       // halves to even
LATHE_API Tensor trunc(const Tensor& x);
LATHE_API Tensor frac(const Tensor& x);        // x - trunc(x)              twice differentiable
LATHE_API Tensor exp(const Tensor& x);         // e^x                       twice differentiable; amp: float, as for the next fifteen
LATHE_API Tensor expm1(const Tensor& x);       // e^x - 1, exact near 0
LATHE_API Tensor log(const Tensor& x);         // ln x
LATHE_API Tensor log1p(const Tensor& x);       // ln(1 + x), exact near 0
LATHE_API Tensor log2(const Tensor& x);
LATHE_API Tensor log10(const Tensor& x);
LATHE_API Tensor exp2(const Tensor& x);        // 2^x
LATHE_API Tensor rsqrt(const Tensor& x);       // 1 / sqrt(x)
LATHE_API Tensor reciprocal(const Tensor& x);  // 1 / x
LATHE_API Tensor sin(const Tensor& x);
LATHE_API Tensor cos(const Tensor& x);
LATHE_API Tensor tan(const Tensor& x);
LATHE_API Tensor asin(const Tensor& x);        // NaN outside [-1, 1], as acos and atanh
LATHE_API Tensor acos(const Tensor& x);
LATHE_API Tensor sinh(const Tensor& x);
LATHE_API Tensor cosh(const Tensor& x);
LATHE_API Tensor atan(const Tensor& x);        //                           twice differentiable
LATHE_API Tensor asinh(const Tensor& x);
LATHE_API Tensor acosh(const Tensor& x);       // NaN below 1
LATHE_API Tensor atanh(const Tensor& x);
LATHE_API Tensor sqrt(const Tensor& x);        // gradient +inf at 0        twice differentiable
LATHE_API Tensor tanh(const Tensor& x);
LATHE_API Tensor sigmoid(const Tensor& x);     // 1 / (1 + e^-x)
LATHE_API Tensor erf(const Tensor& x);
LATHE_API Tensor relu(const Tensor& x);        // max(x, 0); NaN stays; gradient 0 at 0, dy at NaN
LATHE_API Tensor leaky_relu(const Tensor& x, double slope = 0.01);  // x > 0 ? x : slope * x
LATHE_API Tensor elu(const Tensor& x, double alpha = 1.0);          // x > 0 ? x : alpha * (e^x - 1)
LATHE_API Tensor silu(const Tensor& x);        // x * sigmoid(x)
LATHE_API Tensor isnan(const Tensor& x);       // → bool, as the next two
LATHE_API Tensor isinf(const Tensor& x);
LATHE_API Tensor isfinite(const Tensor& x);
// clang-format on

struct GeluOptions {
  bool tanh_approximation = false;  // true: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
};
/// x * Phi(x), where Phi is the normal distribution function.
/// grad: x, twice differentiable.   ref: Hendrycks and Gimpel 2016 (arXiv:1606.08415).
LATHE_API Tensor gelu(const Tensor& x, const GeluOptions& options = {});

struct SoftplusOptions {
  double beta = 1.0;
  double threshold = 20.0;  // above beta * x = threshold the result is x itself
};
/// ln(1 + e^(beta x)) / beta.
/// grad: x, twice differentiable.
LATHE_API Tensor softplus(const Tensor& x, const SoftplusOptions& options = {});

struct ClampOptions {
  std::optional<Scalar> low = {}, high = {};  // absent: no limit on that side
};
/// min(max(x, low), high). NaN in x stays NaN. If low or high is NaN, every element becomes NaN.
/// Integers are clamped exactly; a floating low or high turns them into the default dtype.
/// grad: x, twice differentiable; dy in the closed interval, 0 elsewhere.
/// throws: ValueError if both ends are absent, or if the integers from low to high are all outside
/// the range of x's dtype.
LATHE_API Tensor clamp(const Tensor& x, const ClampOptions& options);
LATHE_API Tensor clamp(const Tensor& x, Scalar low, Scalar high);
/// Like clamp() with numbers, but with an interval for each element: x, low and high broadcast. An
/// undefined end sets no limit. Dtypes are promoted as in ops/binary.h.
/// grad: x, low, high, twice differentiable; low or high gets dy where it replaces x, but low only
/// where low < high.
/// throws: ValueError if both ends are undefined; ShapeError, DeviceError; DTypeError for bool.
LATHE_API Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);

namespace cpu {
/// out = op(x). out has x's dtype, or bool for the kIs… ops.
void unary(UnaryOp op, const Tensor& out, const Tensor& x, UnaryParams params);
}  // namespace cpu
namespace cuda {
void unary(UnaryOp op, const Tensor& out, const Tensor& x, UnaryParams params);
}  // namespace cuda

}  // namespace lathe
