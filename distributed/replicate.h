// replicate(): copies rank 0's model to all ranks.
#pragma once

#include <string>
#include <vector>

#include "lathe/distributed/process_group.h"
#include "lathe/nn/module.h"

namespace lathe::distributed {

/// Copies rank 0's parameters and buffers into those of `model` on all ranks, in place. First
/// compares the ranks' names, shapes and dtypes, and which parameters require grad. Waits for all
/// ranks.
/// throws: on all ranks, DistributedError naming the first rank and entry that differ. Nothing has
/// changed then, and the group can still be used.
LATHE_API void replicate(ProcessGroup& group, nn::Module& model);

/// Compares the texts of all ranks, which all_gather_text() returned, line by line. `what` begins
/// the error message, for example "replicate: the models".
/// throws: DistributedError naming the first rank and line that differ from rank 0's.
LATHE_API void check_same(ProcessGroup& group, const char* what,
                          const std::vector<std::string>& texts);

/// Returns when all ranks have called it. Call it before all ranks throw the same error. Otherwise
/// one rank could throw and leave early, and the others would only report that this rank has left.
LATHE_API void wait_until_all_know(ProcessGroup& group);

}  // namespace lathe::distributed
