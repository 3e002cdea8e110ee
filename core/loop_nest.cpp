// Makes loop nests (ordering and merging of dimensions) and cuts large ones into 32-bit parts.
#include "lathe/core/loop_nest.h"

#include <cstdlib>

namespace lathe {

namespace {

/// True if a belongs inside b. Compares the steps of the first operand; where they are equal and
/// the order says so, those of the next.
bool comes_inside(const LoopDim& a, const LoopDim& b, int operands, LoopOrder order) {
  if (order == LoopOrder::kRowMajor) return false;
  if (order == LoopOrder::kMovingInside) {
    const int64_t p = std::abs(a.step[0]), q = std::abs(b.step[0]);
    return p != 0 && (q == 0 || p < q);
  }
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

constexpr int64_t kIndexLimit = int64_t{1} << 31;

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

void LoopNest::push(const LoopDim& dim) {
  if (ndim > 0 && continues(dim, dims[ndim - 1], operands)) {
    dims[ndim - 1].size *= dim.size;
  } else {
    dims[ndim++] = dim;
  }
}

LoopNest order_dims(const Shape& shape, const StridedOperand* operands, int count,
                    LoopOrder order) {
  LoopNest nest;
  nest.operands = count;
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (shape[d] == 1) continue;
    LoopDim dim{shape[d], {}};
    for (int k = 0; k < count; ++k) {
      dim.step[k] = operands[k].strides[d] * operands[k].element_bytes;
    }
    int at = nest.ndim++;  // insertion sort
    for (; at > 0 && comes_inside(dim, nest.dims[at - 1], count, order); --at) {
      nest.dims[at] = nest.dims[at - 1];
    }
    nest.dims[at] = dim;
  }
  return nest;
}

LoopNest make_nest(const Shape& shape, const StridedOperand* operands, int count, LoopOrder order) {
  LoopNest nest = order_dims(shape, operands, count, order);
  if (nest.ndim == 0) nest.push(LoopDim{1, {}});
  const int ndim = nest.ndim;
  nest.ndim = 0;
  for (int d = 0; d < ndim; ++d) nest.push(nest.dims[d]);
  return nest;
}

int dimension_across(const LoopNest& nest) {
  constexpr int64_t kShortest = 8;
  const LoopDim& inner = nest.dims[0];
  if (inner.step[0] != 1 || inner.step[1] == 1 || inner.size < kShortest) return 0;
  for (int d = 1; d < nest.ndim; ++d) {
    if (nest.dims[d].step[1] == 1) return nest.dims[d].size < kShortest ? 0 : d;
  }
  return 0;
}

bool fits_32_bits(const LoopNest& nest) {
  if (nest.numel() >= kIndexLimit) return false;
  for (int k = 0; k < nest.operands; ++k) {
    int64_t last = 0;
    for (int d = 0; d < nest.ndim; ++d)
      last += (nest.dims[d].size - 1) * std::abs(nest.dims[d].step[k]);
    if (last >= kIndexLimit) return false;
  }
  return true;
}

void each_32_bit_part(const LoopNest& nest,
                      FunctionRef<void(const LoopNest&, const int64_t*)> part) {
  const int64_t start[kMaxOperands] = {};
  cut(nest, start, part);
}

}  // namespace lathe
