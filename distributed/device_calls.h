// The collectives of a ProcessGroup on GPU tensors, through a DeviceBackend. process_group.cpp has
// checked the arguments and calls these.
#pragma once

#include "lathe/distributed/group_state.h"

namespace lathe::distributed::detail {

/// `call` has text and name. Each writes its first tensor on the GPU's own time.
Work all_reduce_on(DeviceBackend& backend, GroupState& group, Call call, const Tensor& t,
                   Reduce op);
Work broadcast_on(DeviceBackend& backend, GroupState& group, Call call, const Tensor& t,
                  int64_t root);
Work all_gather_on(DeviceBackend& backend, GroupState& group, Call call, const Tensor& out,
                   const Tensor& in);
Work reduce_scatter_on(DeviceBackend& backend, GroupState& group, Call call, const Tensor& out,
                       const Tensor& in, Reduce op);

}  // namespace lathe::distributed::detail
