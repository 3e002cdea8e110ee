// vmap applies a function of one sample to each sample of a batch (vmap.cpp).
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
  // The batch dimension of each input; kWhole passes the whole input to every call. Empty: 0 for
  // all.
  std::vector<int64_t> in_dims = {};
  // The dimension at which each output is stacked. Empty: 0 for all.
  std::vector<int64_t> out_dims = {};

  static constexpr int64_t kWhole = INT64_MIN;
};

/// Calls f once per sample, in order, and stacks the results. f gets views of its inputs without
/// the batch dimension. f may call any op, grad(), jacobian() and another vmap().
///   - vmap is as slow as a loop over the samples. Where the ops broadcast, calling them on the
///     whole batch is faster.
///   - If f writes into a sample in place, it changes the input.
/// grad: that of the ops in f.
/// throws: what f throws, and
///   - ValueError if no input has a batch dimension, the batch is empty, in_dims or out_dims is not
///     as long as the list of inputs or results, or f returns no tensors or not always the same
///     number
///   - ShapeError for batches of different sizes, a 0-d input without kWhole, or results of
///     different shapes
///   - IndexError for a number in in_dims or out_dims that is out of range
LATHE_API Tensors vmap(const TensorsFunction& f, const Tensors& inputs,
                       const VmapOptions& options = {});

}  // namespace lathe
