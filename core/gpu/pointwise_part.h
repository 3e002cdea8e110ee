// The host's share of core/gpu/pointwise.cuh, the same for all functions and dtypes: in a file of its
// own, so that it is compiled once and not for each of a thousand kernels.
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
  DType dtype;  // what the kernel takes it for
};

/// A piece that fits 32 bits. Operand 0 is the output.
struct PointwisePart {
  LoopNest nest;                  // over elements, or over packets of neighbours
  void* data[kMaxOperands] = {};  // where each operand starts; null: a number, a 0-d CPU tensor
  bool packed = false;            // every operand is dense along dims[0] or, an input, constant
  uint32_t count = 0, left = 0;   // elements, or packets and the elements beyond the last one
  uint32_t repeated = 0;          // bit k: packets of input k hold one value throughout
  Stream stream;
};

/// Calls launch(part) for pieces that make up the loop over operands[0]'s elements, to which the
/// others broadcast; in packets of `packet` neighbours where layout and alignment allow.
/// throws: DTypeError unless each operand has its dtype; ValueError for none, or more than
/// kMaxOperands.
LATHE_API void each_pointwise_part(std::span<const PointwiseOperand> operands, int packet,
                                   FunctionRef<void(const PointwisePart&)> launch);

}  // namespace lathe
