// vmap: a function of one sample as a function of a batch (vmap.cpp).
//   const auto loss = [&](const Tensors& sample) { … };                  // of one x, one y
//   const Tensors losses = vmap(loss, {xs, ys});                         // [N]
//   const auto gradient = [&](const Tensors& s) { return grad({loss(s)}, {w})[0]; };
//   const Tensors per_sample = vmap(gradient, {xs, ys});                 // [N, w's shape]
#pragma once

#include <vector>

#include "lathe/autograd/tensors_function.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct VmapOptions {
  // The dimension of each input that is the batch; kWhole gives an input to every call as it is.
  // Empty: dimension 0 of all.
  std::vector<int64_t> in_dims = {};
  // The dimension at which each output is stacked. Empty: 0 for all.
  std::vector<int64_t> out_dims = {};

  static constexpr int64_t kWhole = INT64_MIN;
};

/// f of every sample, stacked. f sees its inputs without the batch dimension, as views, and may
/// call anything: any op, grad(), jacobian(), another vmap(). It is called once per sample, in
/// order, so nothing is saved against a loop; what it brings is the shape of the code. Where
/// the ops broadcast, calling them on the whole batch is faster.
/// What f writes into a sample in place reaches the input.
/// grad: whatever f's ops have.
/// throws: ValueError (no batch dimension, in_dims or out_dims of another length, an empty batch, f
/// returns nothing or another number of tensors), ShapeError (batches of different sizes, outputs
/// of different shapes), IndexError; what f throws.
LATHE_API Tensors vmap(const TensorsFunction& f, const Tensors& inputs,
                       const VmapOptions& options = {});

}  // namespace lathe
