// What tests ask of the emulated cuDNN (cudnn/cudnn.h), and how they break it.
//
// It keeps rules that the library keeps: descriptors are finalized before they are used and not
// changed afterwards; what a descriptor refers to must still exist; sizes must fit; every tensor of
// a graph is bound when it is executed, at an address as aligned as was said, and the workspace is
// there. Work is queued on the handle's stream and overwrites its whole workspace.
// The description of a GPU may stand where a handle would, in all but executions.
// A plan that is destroyed before its work has run is noted (lost_plans).
//
// Its engines, in the order of the heuristics:
//   A          7  tensor cores, with knob TILE_SIZE = 2, then 1: NHWC with channels in whole groups
//                 of 16 bytes at addresses so aligned; rounds f32 factors to TF32
//              5  rounds factors to bf16, and says so (DOWN_CONVERT_INPUTS)
//              3  not deterministic; needs a workspace of 4 bytes per element of the output
//              4  knob SPLIT_K = 4; needs a workspace of 16 bytes per element of the output
//   B          3  again
//   FALLBACK   4  again
//              0  needs no workspace, takes everything
// For graphs that fuse more than a bias, as described in ops/conv/cudnn/conv2d_patterns_cudnn.h:
//   A, B       8  with knob TILE_SIZE = 2, then 1: f16 in NHWC, channels in whole groups of 16
//                 bytes, no groups, filters up to 5 (except relu_norm and what has a
//                 bias), a stride of 1 with a residual in training; rounds factors to f16 and has no note of tensor cores
// And if probe.offers_many, 55 others, which take everything and need no workspace:
//   A          9  20 times before all others, with knob TILE_SIZE = 0 to 19
//   B        100  to 153
// Engine 4 has knob SPLIT_K = 4 to 9 in A then, and engine 8 TILE_SIZE = 2, 1, 3 to 11.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <vector>

#include "lathe/core/fault.h"
#include "lathe/tests/emulation/cudnn/cudnn.h"

namespace lathe::emulation {

struct CudnnExecution {
  int64_t engine = 0;
  cudaStream_t stream = nullptr;
  int64_t workspace_bytes = 0;
  bool captured = false;  // into a graph, whose launches run it
  std::vector<int64_t> uids;
  std::vector<void*> addresses;  // of the tensors with these uids
};

struct CudnnProbe {
  size_t handles = 0, descriptors = 0, plans = 0;  // alive; plans are among the descriptors
  uint64_t heuristics = 0, plans_made = 0;         // so far
  std::vector<CudnnExecution> executions;          // the latest that were queued
  std::set<int64_t> refused;                       // engines whose plans cannot be finalized
  std::set<int64_t> failing;                       // engines whose execution fails
  std::set<int64_t> uncapturable;                  // engines that a capture does not survive
  std::set<int64_t> indescribable;                 // engines whose notes cannot be read
  bool offers_many = false;
  bool fuses = true;                    // false: no heuristic knows graphs of several operations
  std::atomic<uint64_t> ran{0};         // executions, those of graphs at each launch
  std::atomic<uint64_t> lost_plans{0};  // executions that ran when their plan was gone
  FaultPoint descriptor_fault;  // fails the n-th creation of a descriptor for lack of memory
  FaultPoint stream_fault;      // fails the n-th cudnnSetStream
  FaultPoint execution_fault;   // fails the n-th execution of a plan

  int64_t last_engine() const { return executions.empty() ? -1 : executions.back().engine; }
};
CudnnProbe& cudnn_probe();

}  // namespace lathe::emulation
