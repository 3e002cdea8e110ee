// Ops element by element: y = f(a, b), with broadcasting.
#pragma once

#include "broadcast.h"

namespace tiny {

/// f of each element, row-major.
template <class F>
Tensor map(const Tensor& x, F f) {
  Tensor y(x.shape());
  double* to = y.data();
  const double* from = x.data();
  for_each_offset<1>(x.shape(), {x.strides()}, [&](const auto& at) { *to++ = f(from[at[0]]); });
  return y;
}

/// f of each pair of elements, row-major, in the shape that both broadcast to.
template <class F>
Tensor map(const std::string& op, const Tensor& a, const Tensor& b, F f) {
  const Shape shape = broadcast_shape(op, a.shape(), b.shape());
  Tensor y(shape);
  double* to = y.data();
  const double *pa = a.data(), *pb = b.data();
  for_each_offset<2>(shape, {broadcast_strides(a, shape), broadcast_strides(b, shape)},
                     [&](const auto& at) { *to++ = f(pa[at[0]], pb[at[1]]); });
  return y;
}

/// a + b. Both derivatives are 1, so dy goes to both: summed over what was broadcast.
inline Tensor operator+(const Tensor& a, const Tensor& b) {
  const Tensor y = map("add", a, b, [](double u, double v) { return u + v; });
  return record("add", y, {a, b}, [a = a.shape(), b = b.shape()](const Tensor& dy, const Needs&) {
    return std::vector{sum_to(dy, a), sum_to(dy, b)};
  });
}

/// a * b. The derivative by a is b, so da = dy * b.
inline Tensor operator*(const Tensor& a, const Tensor& b) {
  const Tensor y = map("mul", a, b, [](double u, double v) { return u * v; });
  return record("mul", y, {a, b}, [a = Saved(a), b = Saved(b)](const Tensor& dy, const Needs&) {
    return std::vector{sum_to(dy * b.get(), a.get().shape()),
                       sum_to(dy * a.get(), b.get().shape())};
  });
}

/// max(x, 0); NaN stays NaN. Its derivative is 1 where x > 0, that is where y > 0, else 0 (also
/// at 0, where there is none). So the gradient needs only y, and the caller may write into x.
inline Tensor relu(const Tensor& x) {
  const Tensor y = map(x, [](double v) { return v < 0 ? 0 : v; });
  return record("relu", y, {x}, [y = Saved(y)](const Tensor& dy, const Needs&) {
    return std::vector{
        map("relu", dy, y.get(), [](double g, double value) { return value > 0 ? g : 0; })};
  });
}

}  // namespace tiny

// What the real one adds, and why
// - ops/unary.h and ops/binary.h: all the others. ops/elementwise_kernels/unary_math.h is the
//   arithmetic of both the loop for a CPU and the kernel for a GPU.
// - graph/fused/pointwise_run.h: an op costs what it reads and writes, so several run in one loop.
