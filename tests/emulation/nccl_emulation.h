// What tests ask of the emulated NCCL (nccl/nccl.h), and how they break it.
//
// Its ranks are processes, each with emulated devices of its own. What they send each other are
// files in a temporary folder of the communicator.
// - A collective is queued work of its stream. When its turn comes it leaves this rank's part, and
//   the stream waits until the parts of all ranks are there. What does not fit never comes.
// - Every communicator is a non-blocking one, and its first collective is in progress for a while.
// - A rank that ends or hangs is not noticed: the others wait until they abort.
// - Two ranks on one device, a stream of another device, and a call before the communicator is there:
//   ncclInvalidUsage.
// - On a stream that is being captured a collective is a node of the graph: each launch makes it.
//   Until all such graphs are destroyed a communicator is not final, and ncclCommAbort does not
//   return.
// - Sums are made in the order of the ranks.
#pragma once

#include <atomic>
#include <cstdint>

#include "lathe/core/fault.h"
#include "lathe/tests/emulation/nccl/nccl.h"

namespace lathe::emulation {

struct NcclProbe {
  FaultPoint call_fault;   // the n-th collective is refused with ncclSystemError
  FaultPoint async_fault;  // the n-th collective hangs, and then the communicator says why
  FaultPoint hang_fault;   // the n-th collective hangs
  // The n-th collective that is recorded into a graph is refused with ncclSystemError. Armed by
  // LATHE_EMULATED_RECORDED_FAULT=n, too.
  FaultPoint recorded_fault;
  uint64_t collectives = 0;               // queued so far
  cudaStream_t stream = nullptr;          // of the last collective
  std::atomic<size_t> communicators = 0;  // alive
  std::atomic<uint64_t> aborted = 0;      // communicators that ended by ncclCommAbort
};
NcclProbe& nccl_probe();

}  // namespace lathe::emulation
