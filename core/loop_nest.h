// The loop nest behind the kernels of both backends that take any strides. It is made on the host,
// once per call: dimensions are put in order and merged. NestWalk walks it on the CPU,
// core/gpu/strided_index.cuh on the GPU.
#pragma once

#include <algorithm>
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

/// dims[0] is the innermost. None has size 1 unless it is the only one.
struct LoopNest {
  LoopDim dims[kMaxDims];
  int ndim = 0;
  int operands = 0;

  int64_t numel() const;
  /// Puts `dim` around the others, or makes it a part of the outermost if every operand's step
  /// continues from that.
  void push(const LoopDim& dim);
};

enum class LoopOrder : uint8_t {
  kDensestInside,  // the order that is densest for the first operand, then for the next
  kMovingInside,   // densest for the first operand; a dimension in which it stays is outside
  kRowMajor,       // position i of the nest is element i of the shape
};

/// The dimensions of `shape` in order, not merged, without those of size 1.
LATHE_API LoopNest order_dims(const Shape& shape, const StridedOperand* operands, int count,
                              LoopOrder order);

/// The loop over all elements of `shape`: its dimensions in order and merged; one at least.
LATHE_API LoopNest make_nest(const Shape& shape, const StridedOperand* operands, int count,
                             LoopOrder order);

/// For a copy: the dimension along which the source (operand 1) is dense, if the destination
/// (operand 0) is dense along dimension 0 and both dimensions have at least 8 elements; else 0. The
/// unit of the nest is an element.
LATHE_API int dimension_across(const LoopNest& nest);

/// True if all positions, and every operand's offsets in the nest's units, stay below 2^31.
LATHE_API bool fits_32_bits(const LoopNest& nest);

/// Cuts `nest` in halves until every piece fits 32 bits, and calls part(piece, start) for each.
/// Operand k of a piece begins at start[k].
LATHE_API void each_32_bit_part(const LoopNest& nest,
                                FunctionRef<void(const LoopNest&, const int64_t* start)> part);

/// A position in a nest, from dimension `inner` outwards.
template <int kOperands>
class NestWalk {
 public:
  NestWalk(const LoopNest& nest, int64_t at, int inner = 0) : nest_(nest), inner_(inner) {
    for (int d = inner; d < nest.ndim; ++d) {
      const LoopDim& dim = nest.dims[d];
      index_[d] = at % dim.size;
      at /= dim.size;
      for (int k = 0; k < kOperands; ++k) offset[k] += index_[d] * dim.step[k];
    }
  }
  void next() {
    for (int d = inner_; d < nest_.ndim; ++d) {
      const LoopDim& dim = nest_.dims[d];
      for (int k = 0; k < kOperands; ++k) offset[k] += dim.step[k];
      if (++index_[d] < dim.size) return;
      for (int k = 0; k < kOperands; ++k) offset[k] -= dim.size * dim.step[k];
      index_[d] = 0;
    }
  }
  int64_t offset[kOperands] = {};  // of each operand, in the nest's units

 private:
  const LoopNest& nest_;
  int inner_;
  int64_t index_[kMaxDims];
};

/// Calls f(offset, first, n) for every row of the positions [begin, end): where each operand is at
/// the row's beginning, and which n positions of the innermost dimension to visit.
template <int kOperands, class F>
void each_row(const LoopNest& nest, int64_t begin, int64_t end, F f) {
  const int64_t size = nest.dims[0].size;
  NestWalk<kOperands> outer(nest, begin / size, 1);
  int64_t first = begin % size;
  for (int64_t at = begin; at < end; outer.next()) {
    const int64_t n = std::min(size - first, end - at);
    f(outer.offset, first, n);
    at += n;
    first = 0;
  }
}

}  // namespace lathe
