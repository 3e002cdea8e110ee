// Running statistics of batch norms for weights that the model was not trained with, such as
// averages.
#pragma once

#include <functional>

#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"

namespace lathe::optim {

/// Sets the running statistics of all batch norms in `module` to the mean of those of each batch in
/// which the norm is called; if it is called several times in one, to a mean of those calls. A norm
/// that no batch reaches keeps its statistics.
/// `next` gives the batches' inputs, one at each call, and an undefined tensor after the last one.
/// Runs module(input) in training mode, without gradients; modes are as before then. Without
/// batches, or without batch norms with running statistics, nothing changes.
/// With average_buffers the model's own statistics come back with its own weights:
///   optim::EMA swa(model, {.swa = true, .average_buffers = true});  … swa.update();  // each epoch
///   optim::EMA::Applied averaged(swa);
///   optim::update_bn(model, [&] { return it == loader.end() ? Tensor() : (it++)->x; });
/// throws: ValueError for a batch norm with a momentum of 0, and for a part of a model from a file
/// that has running statistics; what the module throws. The statistics
/// are as before then.
/// ref: Izmailov et al. 2018 (arXiv:1803.05407), algorithm 1; PyTorch's swa_utils.update_bn.
LATHE_API void update_bn(nn::Module& module, const std::function<Tensor()>& next);

}  // namespace lathe::optim
