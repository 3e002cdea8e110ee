// What tests of batch norm, relu and convolution as one op share: a layer, its tensors, and a pass
// forward and back.
#pragma once

#include <cmath>
#include <string>

#include "cudnn_problem.h"
#include "lathe/lathe.h"
#include "lathe/ops/batch_norm_conv2d.h"

namespace lathe::test {

struct NormedLayer {
  std::string name;
  Shape x, w;
  Pair stride, pad;
};

/// The tensors of a layer: on the GPU as training has them, on the CPU the same values in f64.
struct NormedProblem {
  Tensor x, w, weight, bias, mean, var, dy;

  Tensors leaves() const { return {x, weight, bias, w}; }
  NormedProblem in_f64() const {
    const auto wide = [](const Tensor& t) { return cast(t.detach().cpu(), kF64).clone(); };
    return {wide(x), wide(w), wide(weight), wide(bias), wide(mean), wide(var), wide(dy)};
  }
};

inline NormedProblem problem_of(const NormedLayer& layer) {
  const auto half = [](const Tensor& t) {
    return cast(t, kF16).contiguous(kChannelsLast).to(kGpu);
  };
  const int64_t channels = layer.x[1];
  const double fan = static_cast<double>(numel_of(layer.w) / layer.w[0]);
  const Conv2dGeometry g =
      geometry_of({"", layer.x, layer.w, {.stride = layer.stride, .pad = layer.pad}});
  const Tensor shift = randn({1, channels, 1, 1});
  return {half(randn(layer.x) * 1.5 + shift),
          half(randn(layer.w) * std::sqrt(2 / fan)),
          (rand({channels}) + 0.5).to(kGpu),
          (randn({channels}) * 0.3).to(kGpu),
          zeros({channels}).to(kGpu),
          ones({channels}).to(kGpu),
          half(randn(g.y_shape()))};
}

/// y, the running statistics, and the gradients of x, weight, bias and w.
inline Tensors run(const NormedLayer& layer, const NormedProblem& p) {
  for (const Tensor& t : p.leaves()) {
    t.requires_grad_();
    t.set_grad({});
  }
  const Tensor mean = p.mean.clone(), var = p.var.clone();
  const Tensor y =
      batch_norm_relu_conv2d(p.x, {p.weight, p.bias, mean, var}, p.w, {.training = true},
                             {.stride = layer.stride, .pad = layer.pad});
  sum(cast(y, p.weight.dtype()) * cast(p.dy, p.weight.dtype())).backward();
  Tensors all{y.detach(), mean, var};
  for (const Tensor& t : p.leaves()) all.push_back(t.grad().clone());
  return all;
}
inline constexpr const char* kNames[] = {"y", "mean", "var", "dx", "dweight", "dbias", "dw"};

}  // namespace lathe::test
