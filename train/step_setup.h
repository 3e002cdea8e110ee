// StepSetup: how a training step is made, for what tries steps: plans, the search for the largest
// batch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "lathe/core/device.h"
#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"
#include "lathe/optim/optimizer.h"
#include "lathe/train/step.h"

namespace lathe::train {

/// Model, optimiser and batch are made in this order.
struct StepSetup {
  std::function<std::unique_ptr<nn::Module>()> model;  // on the CPU
  std::function<std::unique_ptr<optim::Optimizer>(nn::Module& model)> optimizer;
  std::function<LossFunction(nn::Module& model)> loss;
  /// The tensors that the loss function gets. Random values do; the optimiser should then have a
  /// rate at which they change little.
  std::function<Tensors(int64_t samples, Device device)> batch;
  /// accumulate and capture are not read: a step is an update, and kernels run one by one.
  StepOptions options = {};
  bool channels_last = false;  // the memory format of images and filters
};

}  // namespace lathe::train
