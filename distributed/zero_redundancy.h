// ZeroRedundancyOptimizer: an optimiser whose state is divided among the ranks (ZeRO, stage 1).
//
//   DistributedDataParallel parallel(group, model);
//   optim::AdamW adam(model.parameters(), {.lr = 1e-3});
//   ZeroRedundancyOptimizer sharded(group, adam);
//   … adam.step(); …                                  // as before
//
// zero_redundancy.cpp: the shares, what ranks compare, and what they exchange;
// optim/state_shares.h: the optimiser's calls.
//
// Note [Shares of the state]
// All ranks have all parameters and, after a backward pass, the same gradients. A rank keeps the
// optimiser's state of its share of the parameters, and updates only these parameters. Then each
// rank sends the values of its share to the others. A parameter belongs to one rank as a whole. The
// largest parameters are assigned first, each to the rank that has the least so far. So the shares
// are even as long as no parameter is larger than a share.
// Code that reads all gradients, such as clipping by the total norm and the loss scale, runs on
// every rank with the same result. So the parameters have the same bits as with the whole state on
// every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lathe/distributed/process_group.h"
#include "lathe/optim/optimizer.h"

namespace lathe::distributed {

/// Divides the state of `optimizer` among the ranks. Loops, schedulers, scalers and checkpoints use
/// the optimiser as before. The optimiser's step(), state_dict() and load_state_dict() now exchange
/// data with the other ranks, so all ranks must call them in the same order.
///   - state_dict() returns the whole state on every rank; tensors from other ranks are in host
///     memory. Any number of ranks can load it.
///   - If step() or state_dict() fails on one rank, the process group ends, and all ranks' errors
///     name that rank.
///   - A step can be captured into a CUDA graph if the group's calls run over NCCL. Otherwise, with
///     several ranks, a captured step throws StateError, and nothing has changed.
/// A ZeroRedundancyOptimizer cannot be copied or moved. The group must outlive the
/// ZeroRedundancyOptimizer. The ZeroRedundancyOptimizer must outlive the optimiser's last step: a
/// later step throws StateError.
/// ref: Rajbhandari et al. 2020 (arXiv:1910.02054), stage 1.
class LATHE_API ZeroRedundancyOptimizer {
 public:
  /// The optimiser may already have state, the same on all ranks. Waits for all ranks.
  /// throws: on all ranks, DistributedError naming rank and parameter or option if the optimisers
  /// differ; StateError if the optimiser's state is divided already. Nothing has changed then.
  ZeroRedundancyOptimizer(ProcessGroup& group, optim::Optimizer& optimizer);
  ~ZeroRedundancyOptimizer();
  ZeroRedundancyOptimizer(const ZeroRedundancyOptimizer&) = delete;
  ZeroRedundancyOptimizer& operator=(const ZeroRedundancyOptimizer&) = delete;

  /// The rank that keeps the state of parameter `number`. The numbers run through all parameter
  /// groups of the optimiser.
  int64_t owner(size_t number) const;

 private:
  class Shares;
  std::shared_ptr<Shares> shares_;
};

}  // namespace lathe::distributed
