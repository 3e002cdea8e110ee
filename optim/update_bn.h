// Running statistics of batch norms for weights that the model was not trained with, such as
// averages.
#pragma once

#include <functional>

#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"

namespace lathe::optim {

/// Sets the running statistics of each batch norm in `module` to the mean of its batch statistics
/// over all batches. If one batch calls a norm several times, the statistics of this batch are a
/// mean over these calls. A norm that no batch calls keeps its statistics.
/// `next` gives the batches' inputs, one at each call, and an undefined tensor after the last one.
/// Runs module(input) in training mode, without gradients, and restores the modes afterwards.
/// Without batches, or without batch norms with running statistics, nothing changes.
/// With EMAOptions::average_buffers, the model's own statistics come back together with its own
/// weights:
///   optim::EMA swa(model, {.swa = true, .average_buffers = true});  … swa.update();  // each epoch
///   optim::EMA::Applied averaged(swa);
///   optim::update_bn(model, [&] { return it == loader.end() ? Tensor() : (it++)->x; });
/// throws: ValueError for a batch norm with a momentum of 0, and for a module other than
/// nn::BatchNorm that has running statistics (models from files have such modules); what the module
/// throws. All statistics are as before then.
/// ref: Izmailov et al. 2018 (arXiv:1803.05407), algorithm 1; PyTorch's swa_utils.update_bn.
LATHE_API void update_bn(nn::Module& module, const std::function<Tensor()>& next);

}  // namespace lathe::optim
