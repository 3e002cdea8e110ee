// Activations made of other ops (activations.cpp). ops/unary.h has those with a kernel of their
// own, relu to softplus. The result has x's shape, except for glu. Half types are computed in f32
// and rounded once.
// dtypes: any; integers and bool → default dtype.   grad: x, twice differentiable.
// amp: none, the dtype stays.
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

/// min(max(x, low), high). The gradient differs from clamp's: it is 0 at both ends, and dy at NaN.
/// throws: ValueError unless low <= high.
LATHE_API Tensor hardtanh(const Tensor& x, double low = -1.0, double high = 1.0);

/// hardtanh(x, 0, 6), but with a gradient of 0 at NaN.
LATHE_API Tensor relu6(const Tensor& x);

/// relu6(x + 3) / 6.
LATHE_API Tensor hardsigmoid(const Tensor& x);

/// x * hardsigmoid(x).
/// grad: 0 at x = -3; dy at x = 3 and at NaN.   ref: Howard et al. 2019 (arXiv:1905.02244).
LATHE_API Tensor hardswish(const Tensor& x);

/// x * tanh(softplus(x)).
/// ref: Misra 2019 (arXiv:1908.08681).
LATHE_API Tensor mish(const Tensor& x);

/// scale * elu(x, alpha), with the paper's scale and alpha, which keep mean 0 and variance 1.
/// ref: Klambauer et al. 2017 (arXiv:1706.02515).
LATHE_API Tensor selu(const Tensor& x);

/// x / (1 + |x|).
LATHE_API Tensor softsign(const Tensor& x);

/// log(sigmoid(x)), without overflow.
LATHE_API Tensor logsigmoid(const Tensor& x);

/// x > 0 ? x : alpha * (e^(x/alpha) - 1), which has slope 1 at 0 for every alpha.
/// throws: ValueError for alpha = 0.   ref: Barron 2017 (arXiv:1704.07483).
LATHE_API Tensor celu(const Tensor& x, double alpha = 1.0);

/// x where |x| > lambda, else 0; NaN stays.
LATHE_API Tensor hardshrink(const Tensor& x, double lambda = 0.5);

/// x moved towards 0 by lambda, 0 where |x| <= lambda; NaN stays.
/// throws: ValueError for lambda < 0.
LATHE_API Tensor softshrink(const Tensor& x, double lambda = 0.5);

/// x - tanh(x).
LATHE_API Tensor tanhshrink(const Tensor& x);

/// softmax(-x, dim).
/// grad: as softmax (ops/softmax.h).   amp: float.   throws: as softmax.
LATHE_API Tensor softmin(const Tensor& x, int64_t dim);

/// The first half of x along `dim`, times the sigmoid of the second half.
///   →  x's shape with half the size along `dim`
/// throws: ShapeError if that size is odd; IndexError for a dimension out of range.
LATHE_API Tensor glu(const Tensor& x, int64_t dim = -1);

/// x > 0 ? x : weight * x.
///   weight  [1], or [C] for C channels along dimension 1 of x (along dimension 0 if x is 1-d)
/// dtypes: floats, both the same or promoted.
/// grad: x, weight, twice differentiable; at x = 0 the same as for x < 0.
/// throws: ShapeError, DTypeError, DeviceError.
LATHE_API Tensor prelu(const Tensor& x, const Tensor& weight);

}  // namespace lathe
