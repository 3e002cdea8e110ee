// Batch norm over all ranks: its statistics are those of the whole batch, not of one rank's part.
//   convert_sync_batch_norm(group, model);
//   DistributedDataParallel parallel(group, model);
#pragma once

#include <cstdint>

#include "lathe/distributed/process_group.h"
#include "lathe/nn/module.h"

namespace lathe::distributed {

/// Returns the sum of t over all ranks. Its gradient is the sum of the ranks' gradients. So, if
/// each rank has a loss, the gradients are those of the sum of all losses. All ranks must call
/// all_reduce() and run the same backward passes. Waits as Work::wait() does.
/// grad: t, twice differentiable.
/// throws: DTypeError unless t is floating; DistributedError if a rank failed.
LATHE_API Tensor all_reduce(ProcessGroup& group, const Tensor& t);

/// Makes every batch norm of the model normalise, in training, with the mean and variance of all
/// ranks' batches together. The ranks' batches may have different sizes. Evaluation mode, names and
/// state dict stay as they are. All ranks must run the same forward passes. The model then refers
/// to the group, which must outlive the model's training. Each batch norm sends two sums in the
/// forward pass and two in the backward pass, and runs as single ops without fused kernels. In
/// training, a function that jit::compile() made runs the model without a traced graph. Does
/// nothing in a group of one process.
/// → the number of batch norms
LATHE_API int64_t convert_sync_batch_norm(ProcessGroup& group, nn::Module& model);

}  // namespace lathe::distributed
