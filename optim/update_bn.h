// Running statistics of batch norms for weights that the model was not trained with, such as
// averages.
#pragma once

#include <functional>

#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"

namespace lathe::optim {

/// Sets the running statistics of all batch norms in `module` to the mean of those of each batch.
/// `next` gives the batches' inputs, one at each call, and an undefined tensor after the last one.
/// Runs module(input) in training mode, without gradients; modes are as before then. Without
/// batches, or without batch norms with running statistics, nothing changes.
///   optim::EMA swa(model, {.swa = true});  … swa.update();    // after each epoch
///   optim::EMA::Applied averaged(swa);
///   optim::update_bn(model, [&] { return it == loader.end() ? Tensor() : (it++)->x; });
/// throws: ValueError for a batch norm with a momentum of 0; what the module throws. The statistics
/// are as before then.
/// ref: Izmailov et al. 2018 (arXiv:1803.05407), algorithm 1; PyTorch's swa_utils.update_bn.
LATHE_API void update_bn(nn::Module& module, const std::function<Tensor()>& next);

}  // namespace lathe::optim
