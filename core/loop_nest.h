// The loop nest behind the elementwise kernels of both backends. It is made on the host, once per
// call: dimensions are put in order and merged. core/strided_loop.cpp walks it on the CPU,
// core/gpu/strided_index.cuh on the GPU.
#pragma once

#include <cstdint>

#include "lathe/core/function_ref.h"
#include "lathe/core/strided_loop.h"

namespace lathe {

/// The most operands that one nest can have, the output included.
inline constexpr int kMaxOperands = 4;

struct LoopDim {
  int64_t size;
  int64_t step[kMaxOperands];  // in units of StridedOperand::element_bytes
};

/// dims[0] is the innermost. At least one dimension; none has size 1 unless it is the only one.
struct LoopNest {
  LoopDim dims[kMaxDims];
  int ndim = 0;
  int operands = 0;

  int64_t numel() const;
};

enum class LoopOrder : uint8_t {
  kDensestInside,  // the order that is densest for the first operand, then for the next
  kRowMajor,       // position i of the nest is element i of the shape
};

/// The loop over all elements of `shape`. Dimensions of size 1 are dropped. Neighbours are merged
/// where every operand's step continues from one to the other.
LATHE_API LoopNest make_nest(const Shape& shape, const StridedOperand* operands, int count,
                             LoopOrder order);

/// True if all positions, and every operand's offsets in the nest's units, stay below 2^31.
LATHE_API bool fits_32_bits(const LoopNest& nest);

/// Cuts `nest` in halves until every piece fits 32 bits, and calls part(piece, start) for each.
/// Operand k of a piece begins at start[k].
LATHE_API void each_32_bit_part(const LoopNest& nest,
                                FunctionRef<void(const LoopNest&, const int64_t* start)> part);

}  // namespace lathe
