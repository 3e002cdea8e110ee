// The ranks that a launcher has started together.
#pragma once

#include <cstdint>
#include <memory>

#include "lathe/distributed/process_group.h"
#include "lathe/train/ranks.h"

namespace lathe::cli {

using train::Ranks;
using train::RankSums;

/// Joins the ranks that a launcher's environment variables name (distributed/group_options.h).
/// Returns when all ranks have joined.   → null without such variables, or with a single rank
/// throws: UsageError if variables are missing or wrong, or the build has no Gloo; DistributedError
/// if the ranks do not meet.
std::unique_ptr<distributed::ProcessGroup> join_ranks();

/// How many ranks join_ranks() would join; 1 for one process.
/// throws: UsageError for variables that are missing or wrong.
int64_t expected_ranks();

}  // namespace lathe::cli
