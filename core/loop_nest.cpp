// Makes loop nests (ordering and merging of dimensions) and cuts large ones into 32-bit parts.
#include "lathe/core/loop_nest.h"

#include <cstdlib>

namespace lathe {

namespace {

/// Compares the steps of the first operand; where they are equal, those of the next.
bool denser(const LoopDim& a, const LoopDim& b, int operands) {
  for (int k = 0; k < operands; ++k) {
    const int64_t p = std::abs(a.step[k]), q = std::abs(b.step[k]);
    if (p != q) return p < q;
  }
  return false;
}

bool continues(const LoopDim& outer, const LoopDim& inner, int operands) {
  for (int k = 0; k < operands; ++k) {
    if (outer.step[k] != inner.step[k] * inner.size) return false;
  }
  return true;
}

constexpr int64_t kLimit = int64_t{1} << 31;

/// How far dimension d moves the operand that it moves most; at least its size.
int64_t reach_of(const LoopNest& nest, int d) {
  const LoopDim& dim = nest.dims[d];
  int64_t step = 1;
  for (int k = 0; k < nest.operands; ++k) step = std::max(step, std::abs(dim.step[k]));
  return dim.size * step;
}

void cut(const LoopNest& nest, const int64_t* start,
         FunctionRef<void(const LoopNest&, const int64_t*)> part) {
  if (fits_32_bits(nest)) return part(nest, start);
  int longest = 0;
  for (int d = 1; d < nest.ndim; ++d) {
    if (nest.dims[d].size > 1 && reach_of(nest, d) > reach_of(nest, longest)) longest = d;
  }
  const LoopDim& dim = nest.dims[longest];
  // Cuts at a multiple of 16 if there is one, so that vector loads stay aligned.
  const int64_t half = dim.size / 2, first = half >= 16 ? half / 16 * 16 : half;
  int64_t second_start[kMaxOperands];
  for (int k = 0; k < nest.operands; ++k) second_start[k] = start[k] + first * dim.step[k];
  LoopNest piece = nest;
  piece.dims[longest].size = first;
  cut(piece, start, part);
  piece.dims[longest].size = dim.size - first;
  cut(piece, second_start, part);
}

}  // namespace

int64_t LoopNest::numel() const {
  int64_t n = 1;
  for (int d = 0; d < ndim; ++d) n *= dims[d].size;
  return n;
}

LoopNest make_nest(const Shape& shape, const StridedOperand* operands, int count, LoopOrder order) {
  LoopNest nest;
  nest.operands = count;
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (shape[d] == 1) continue;
    LoopDim dim{shape[d], {}};
    for (int k = 0; k < count; ++k) {
      dim.step[k] = operands[k].strides[d] * operands[k].element_bytes;
    }
    int at = nest.ndim++;
    if (order == LoopOrder::kDensestInside) {  // insertion sort
      for (; at > 0 && denser(dim, nest.dims[at - 1], count); --at) {
        nest.dims[at] = nest.dims[at - 1];
      }
    }
    nest.dims[at] = dim;
  }
  if (nest.ndim == 0) {
    nest.dims[0] = LoopDim{1, {}};
    nest.ndim = 1;
    return nest;
  }
  int last = 0;
  for (int d = 1; d < nest.ndim; ++d) {
    LoopDim& inner = nest.dims[last];
    if (continues(nest.dims[d], inner, count)) {
      inner.size *= nest.dims[d].size;
    } else {
      nest.dims[++last] = nest.dims[d];
    }
  }
  nest.ndim = last + 1;
  return nest;
}

bool fits_32_bits(const LoopNest& nest) {
  if (nest.numel() >= kLimit) return false;
  for (int k = 0; k < nest.operands; ++k) {
    int64_t last = 0;
    for (int d = 0; d < nest.ndim; ++d)
      last += (nest.dims[d].size - 1) * std::abs(nest.dims[d].step[k]);
    if (last >= kLimit) return false;
  }
  return true;
}

void each_32_bit_part(const LoopNest& nest,
                      FunctionRef<void(const LoopNest&, const int64_t*)> part) {
  const int64_t start[kMaxOperands] = {};
  cut(nest, start, part);
}

}  // namespace lathe
