// ZeroRedundancyOptimizer: an optimiser whose state is divided among the ranks (ZeRO, stage 1).
//
//   DistributedDataParallel parallel(group, model);
//   optim::AdamW adam(model.parameters(), {.lr = 1e-3});
//   ZeroRedundancyOptimizer sharded(group, adam);
//   … adam.step(); …                                  // as before
//
// zero_redundancy.cpp: the shares, what ranks compare, and what they exchange;
// optim/state_shares.h: what the optimiser asks.
//
// Note [Shares of the state]
// All ranks have all parameters and, after a backward pass, the same gradients. A rank keeps the
// optimiser's state of its share of the parameters only, and updates only those. Then each rank
// sends the values of its share to the others. A parameter belongs to one rank as a whole. The
// largest ones are given out first, each to the rank that has least so far. So the shares are
// even as long as no parameter is larger than a share.
// What looks at all gradients, such as clipping by the total norm and the loss scale, does so on
// every rank and finds the same there. So the parameters have the bits that they would have with
// whole state on every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lathe/distributed/process_group.h"
#include "lathe/optim/optimizer.h"

namespace lathe::distributed {

/// Divides the state of `optimizer` among the ranks. The optimiser stays what loops, schedulers,
/// scalers and checkpoints know: its step(), state_dict() and load_state_dict() now do their part
/// together with the other ranks. So all ranks must call them, in the same order.
/// state_dict() is on every rank the state of one process with whole state. What comes from other
/// ranks lies in host memory. Any number of ranks, and one process, can load it.
/// A step or a state_dict() that fails on one rank ends the group, with that rank as the cause. A
/// step can be captured into a graph where the group makes its calls over NCCL. Otherwise, with
/// more than one rank, that is a StateError, and nothing has changed.
/// Neither copied nor moved. The group must outlive it. It must outlive the last step: a step of
/// the optimiser after it is gone is a StateError.
/// ref: Rajbhandari et al. 2020 (arXiv:1910.02054), stage 1.
class LATHE_API ZeroRedundancyOptimizer {
 public:
  /// The optimiser may have state already, the same on all ranks. Waits.
  /// throws: DistributedError if the optimisers differ, naming rank and parameter or option, on all
  /// ranks; StateError if the state of the optimiser is divided already. Then nothing has changed.
  ZeroRedundancyOptimizer(ProcessGroup& group, optim::Optimizer& optimizer);
  ~ZeroRedundancyOptimizer();
  ZeroRedundancyOptimizer(const ZeroRedundancyOptimizer&) = delete;
  ZeroRedundancyOptimizer& operator=(const ZeroRedundancyOptimizer&) = delete;

  /// The rank that keeps the state of parameter `number`, counted through all groups.
  int64_t owner(size_t number) const;

 private:
  class Shares;
  std::shared_ptr<Shares> shares_;
};

}  // namespace lathe::distributed
