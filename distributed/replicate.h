// replicate(): the same model on all ranks, to begin with.
#pragma once

#include <string>
#include <vector>

#include "lathe/distributed/process_group.h"
#include "lathe/nn/module.h"

namespace lathe::distributed {

/// Gives the parameters and buffers of `model` the values of rank 0, on all ranks. First compares
/// their names, shapes and dtypes, and which parameters require grad. In place, so that optimisers
/// see it. Waits.
/// throws: DistributedError that names the first rank and entry that differ, on all ranks; then
/// nothing has changed, and the group goes on.
LATHE_API void replicate(ProcessGroup& group, nn::Module& model);

/// Compares the texts, lines of what each rank has, which all_gather_text() gave. `what` begins the
/// message: "replicate: the models".
/// throws: DistributedError naming the first rank and line that differ from rank 0's.
LATHE_API void check_same(ProcessGroup& group, const char* what,
                          const std::vector<std::string>& texts);

/// Before all ranks throw an error that they agree on: returns when each of them knows it. Without
/// that, the first rank that leaves would be what the others hear of.
LATHE_API void wait_until_all_know(ProcessGroup& group);

}  // namespace lathe::distributed
