// What tests ask of the emulated cuBLASLt (cublas/cublasLt.h), and how they break it.
//
// It keeps rules that the library keeps: sizes, leading dimensions and batches must fit, a bias or
// its gradient is aligned to 16 bytes, the columns of what an epilogue keeps are whole 128 bits
// (relu) or 8 elements (gelu), and the workspace is there. Work is queued on the stream and
// overwrites its whole workspace. A relu makes 0 of a NaN, as max(x, 0) may.
//
// Its algorithms, in the order of the heuristic:
//   12  adds in the output's dtype: left out where the preference's mask says so
//   21  needs a workspace of 8 bytes per element of the result
//    0  needs none
#pragma once

#include <cstdint>
#include <set>

#include "lathe/tests/emulation/cublas/cublasLt.h"

namespace lathe::emulation {

struct CublasProbe {
  size_t descriptors = 0;   // alive: products, layouts, preferences
  uint64_t heuristics = 0;  // asked so far
  uint64_t products = 0;    // queued so far
  uint64_t failures = 0;    // because a test wanted them
  int64_t algorithm = -1;   // of the last product
  size_t workspace_bytes = 0;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaStream_t stream = nullptr;
  std::set<int64_t> failing;             // algorithms that fail when they run
  bool knows_none = false;               // true: the heuristic finds no algorithm
  std::set<cublasLtEpilogue_t> unknown;  // epilogues for which it finds none
};
CublasProbe& cublas_probe();

}  // namespace lathe::emulation
