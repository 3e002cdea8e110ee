// The definition of a normalised row in f64, for the tests of layer_norm and group_norm.
#pragma once

#include <cmath>
#include <vector>

#include "compare.h"

namespace lathe::test {

using Values = std::vector<double>;

/// Rows of `size` adjacent numbers; channel of number i of row r: r % groups * (size / inner) + i /
/// inner.
inline Values normalised_rows(Values v, size_t size, size_t groups, size_t inner,
                              const Values& weight, const Values& bias) {
  for (size_t r = 0; size > 0 && r < v.size() / size; ++r) {
    double* row = v.data() + r * size;
    double mean = 0, var = 0;
    for (size_t i = 0; i < size; ++i) mean += row[i] / static_cast<double>(size);
    for (size_t i = 0; i < size; ++i)
      var += (row[i] - mean) * (row[i] - mean) / static_cast<double>(size);
    for (size_t i = 0; i < size; ++i) {
      const size_t c = r % groups * (size / inner) + i / inner;
      row[i] = (row[i] - mean) / std::sqrt(var + 1e-5) * (weight.empty() ? 1 : weight[c]) +
               (bias.empty() ? 0 : bias[c]);
    }
  }
  return v;
}

/// weight and bias: none, one of them, both.
template <class F>
void for_affine(const Shape& shape, F f) {
  const Tensor w = f64(shape), b = f64(shape);
  f(Tensor(), Tensor());
  f(w, Tensor());
  f(Tensor(), b);
  f(w, b);
}
inline Values values_of(const Tensor& t) { return t.defined() ? t.to_vector<double>() : Values(); }
inline Tensor in_dtype(const Tensor& t, DType dtype) { return t.defined() ? t.to(dtype) : t; }

/// Gradients of (x, weight, bias), with create_graph (made of ops) and without (fused kernels),
/// must agree.
template <class Norm>
void check_fused_gradient(const Shape& affine, Norm norm) {
  for (const DType dtype : {kF64, kF32, kF16}) {
    const Tensor x = randn({70, 6, 5}, {.dtype = dtype, .requires_grad = true});
    const Tensor w = randn(affine, {.dtype = dtype, .requires_grad = true});
    const Tensor b = zeros(affine, {.dtype = dtype, .requires_grad = true});
    const Tensor dy = randn(x.shape(), {.dtype = dtype});
    std::vector<Tensors> gradients;
    for (const bool create_graph : {false, true}) {
      norm(x, w, b).backward({.gradient = dy, .create_graph = create_graph});
      gradients.push_back(
          {x.grad().detach().clone(), w.grad().detach().clone(), b.grad().detach().clone()});
      for (const Tensor& t : {x, w, b}) t.set_grad({});
    }
    for (size_t i = 0; i < 3; ++i) {
      CHECK(difference(gradients[0][i], gradients[1][i], 4 * tolerance_of(dtype)).empty());
      CHECK(gradients[0][i].dtype() == dtype);
    }
  }
}

}  // namespace lathe::test
