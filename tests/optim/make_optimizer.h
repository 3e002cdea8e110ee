// What the tests share that hold one optimiser against another of the same rule.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lathe/optim/optimizer.h"

namespace lathe::test {

/// One rule with its options, over any parameters.
using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const Tensors&)>;

template <class O, class Options>
MakeOptimizer make(const Options& options) {
  return [options](const Tensors& params) { return std::make_unique<O>(params, options); };
}

/// All that a step may change: the parameters and the optimiser's state.
inline std::vector<std::vector<double>> everything(const Tensors& params,
                                                   const optim::Optimizer& optimizer) {
  std::vector<std::vector<double>> out;
  for (const Tensor& p : params) out.push_back(p.to_vector<double>());
  for (const auto& [name, t] : optimizer.state_dict()) out.push_back(t.to_vector<double>());
  return out;
}

}  // namespace lathe::test
