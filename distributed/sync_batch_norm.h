// Batch norm over all ranks: its statistics are those of the whole batch and not of a rank's part.
//   convert_sync_batch_norm(group, model);
//   DistributedDataParallel parallel(group, model);
#pragma once

#include <cstdint>

#include "lathe/distributed/process_group.h"
#include "lathe/nn/module.h"

namespace lathe::distributed {

/// The sum of t over all ranks, as an op: its gradient is the sum of the ranks' gradients. So if
/// each rank has a loss, the gradients are those of the sum of all losses. Every rank calls it, and
/// runs the same backward passes. Waits.
/// grad: t (twice).
/// throws: DTypeError unless floating; DistributedError.
LATHE_API Tensor all_reduce(ProcessGroup& group, const Tensor& t);

/// In training, every batch norm of the model normalises with the mean and variance over all ranks,
/// whose parts may have different sizes. Evaluation, names and state stay as they are. All ranks
/// must run the same forward passes. The model keeps the group, which must outlive its training.
/// Two sums per layer travel in the forward pass, and two in the backward pass. The layers are then
/// made of single ops, without the fused kernels of batch norm. Each gets a hook that does nothing,
/// in evaluation, too: with hooks, functions of jit::compile() run as written. Does nothing in a
/// world of one.
/// → the number of batch norms
LATHE_API int64_t convert_sync_batch_norm(ProcessGroup& group, nn::Module& model);

}  // namespace lathe::distributed
