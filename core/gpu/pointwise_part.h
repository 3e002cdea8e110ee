// The host's part of core/gpu/pointwise.cuh. It is the same for all functions and dtypes, and in a
// file of its own, so that it is compiled once and not for each of a thousand kernels.
#pragma once

#include <cstdint>
#include <span>

#include "lathe/core/config.h"
#include "lathe/core/function_ref.h"
#include "lathe/core/loop_nest.h"
#include "lathe/core/stream.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct PointwiseOperand {
  const Tensor& tensor;
  DType dtype;  // the dtype that the kernel expects
};

/// A piece of the loop that fits 32 bits. Operand 0 is the output.
struct PointwisePart {
  LoopNest nest;                  // over elements, or over packets of neighbours
  void* data[kMaxOperands] = {};  // each operand's start; null: the number of a 0-d CPU tensor
  bool packed = false;            // each operand is dense along dims[0], or a constant input
  uint32_t count = 0, left = 0;   // elements; or packets, and the elements after the last one
  uint32_t repeated = 0;          // bit k: a packet of input k holds the same value V times
  Stream stream;
};

/// Cuts the loop over the elements of operands[0], to which the others broadcast, into pieces, and
/// calls launch(part) for each. Uses packets of `packet` neighbours if layout and alignment allow.
/// throws: DTypeError unless each operand has its dtype; ValueError for no operand, or more than
/// kMaxOperands.
LATHE_API void each_pointwise_part(std::span<const PointwiseOperand> operands, int packet,
                                   FunctionRef<void(const PointwisePart&)> launch);

}  // namespace lathe
