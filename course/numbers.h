// What tests of tensors share: their values, made-up numbers, and gradients by differences.
#pragma once

#include "points.h"
#include "tiny/pointwise.h"

namespace course {

/// The values in row-major order, each found by its own index.
inline std::vector<double> values(const tiny::Tensor& x) {
  std::vector<double> out;
  for (int64_t number = 0; number < x.numel(); ++number) {
    int64_t at = 0, left = number;
    for (size_t d = x.ndim(); d-- > 0; left /= x.dim(d)) at += left % x.dim(d) * x.strides()[d];
    out.push_back(x.data()[at]);
  }
  return out;
}

/// Numbers between -1 and 1 that look random; another `seed` gives others.
inline tiny::Tensor made_up(const tiny::Shape& shape, int seed) {
  tiny::Tensor x(shape);
  for (int64_t i = 0; i < x.numel(); ++i) x.data()[i] = std::sin(7.3 * (i + 1) + 1.7 * seed);
  return x;
}

using Tensors = std::vector<tiny::Tensor>;

/// Compares the gradient of every input with differences, for the loss sum(f(inputs) * r), where r
/// are made-up numbers.
inline void expect_gradients(const std::string& what, const Tensors& inputs,
                             const std::function<tiny::Tensor(const Tensors&)>& f) {
  Tensors leaves;
  for (const tiny::Tensor& x : inputs) leaves.push_back(tiny::parameter(tiny::copy_of(x)));
  const tiny::Tensor y = f(leaves), r = made_up(y.shape(), 99);
  tiny::backward(tiny::sum(y * r));
  const auto loss = [&] {
    const std::vector<double> out = values(f(inputs)), weights = values(r);
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += out[i] * weights[i];
    return sum;
  };
  for (size_t k = 0; k < inputs.size(); ++k) {
    std::vector<double> numeric;
    double* value = const_cast<double*>(inputs[k].data());
    for (int64_t i = 0; i < inputs[k].numel(); ++i) {
      const double before = value[i];
      value[i] = before + 1e-5;
      const double above = loss();
      value[i] = before - 1e-5;
      numeric.push_back((above - loss()) / 2e-5);
      value[i] = before;
    }
    const std::string name = what + ", gradient of input " + std::to_string(k);
    expect(tiny::grad(leaves[k]).defined(), name + ": there is none");
    expect_close(name, values(tiny::grad(leaves[k])), numeric, 1e-7);
  }
}

}  // namespace course
