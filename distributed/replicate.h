// replicate(): the same model on all ranks, to begin with.
#pragma once

#include "lathe/distributed/process_group.h"
#include "lathe/nn/module.h"

namespace lathe::distributed {

/// Gives the parameters and buffers of `model` the values of rank 0, on all ranks. First compares
/// their names, shapes and dtypes. In place, so that optimisers see it. Waits.
/// throws: DistributedError that names the first rank and entry that differ, on all ranks; then
/// nothing has changed, and the group goes on.
LATHE_API void replicate(ProcessGroup& group, nn::Module& model);

}  // namespace lathe::distributed
