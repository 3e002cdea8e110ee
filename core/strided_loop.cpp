// The strided loop nest; see strided_loop.h.
#include "lathe/core/strided_loop.h"

#include <cstdlib>

#include "lathe/core/thread_pool.h"

namespace lathe {

namespace {

constexpr int kMaxOperands = 4;

struct LoopDim {
  int64_t size;
  int64_t step[kMaxOperands];  // bytes
};

/// The loop after sorting and merging: dims[0] is the innermost.
struct LoopNest {
  LoopDim dims[kMaxDims];
  int ndim = 0;
  int operands = 0;
};

LoopNest make_nest(const Shape& shape, const StridedOperand* operands, int count) {
  LoopNest nest;
  nest.operands = count;
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (shape[d] == 1) continue;
    LoopDim dim{shape[d], {}};
    for (int k = 0; k < count; ++k) {
      dim.step[k] = operands[k].strides[d] * operands[k].element_bytes;
    }
    // Insertion sort by the output's step, then by the inputs': the densest dimension goes inside.
    int at = nest.ndim++;
    const auto before = [&](const LoopDim& a, const LoopDim& b) {
      for (int k = 0; k < count; ++k) {
        const int64_t p = std::abs(a.step[k]), q = std::abs(b.step[k]);
        if (p != q) return p < q;
      }
      return false;
    };
    for (; at > 0 && before(dim, nest.dims[at - 1]); --at) nest.dims[at] = nest.dims[at - 1];
    nest.dims[at] = dim;
  }
  if (nest.ndim == 0) {
    nest.dims[0] = LoopDim{1, {}};
    nest.ndim = 1;
    return nest;
  }
  int last = 0;
  for (int d = 1; d < nest.ndim; ++d) {  // merge d into `last` where it continues every operand
    LoopDim& inner = nest.dims[last];
    bool continues = true;
    for (int k = 0; k < count; ++k) {
      continues = continues && nest.dims[d].step[k] == inner.step[k] * inner.size;
    }
    if (continues) {
      inner.size *= nest.dims[d].size;
    } else {
      nest.dims[++last] = nest.dims[d];
    }
  }
  nest.ndim = last + 1;
  return nest;
}

/// Runs the elements [begin, end) of the nest's linear order.
void run_range(const LoopNest& nest, char* const* start, int64_t begin, int64_t end,
               FunctionRef<void(const StridedRow&)> row) {
  int64_t index[kMaxDims];
  char* data[kMaxOperands];
  int64_t rest = begin;
  for (int k = 0; k < nest.operands; ++k) data[k] = start[k];
  for (int d = 0; d < nest.ndim; ++d) {
    index[d] = rest % nest.dims[d].size;
    rest /= nest.dims[d].size;
    for (int k = 0; k < nest.operands; ++k) data[k] += index[d] * nest.dims[d].step[k];
  }
  const LoopDim& inner = nest.dims[0];
  for (int64_t done = begin; done < end;) {
    const int64_t size = std::min(inner.size - index[0], end - done);
    row(StridedRow{data, inner.step, size});
    done += size;
    if (done == end) return;
    for (int k = 0; k < nest.operands; ++k) data[k] -= index[0] * inner.step[k];
    index[0] = 0;
    for (int d = 1; d < nest.ndim; ++d) {
      for (int k = 0; k < nest.operands; ++k) data[k] += nest.dims[d].step[k];
      if (++index[d] < nest.dims[d].size) break;
      for (int k = 0; k < nest.operands; ++k) {
        data[k] -= nest.dims[d].size * nest.dims[d].step[k];
      }
      index[d] = 0;
    }
  }
}

StridedOperand operand_of(const Tensor& t, const Shape& shape) {
  return {static_cast<char*>(t.raw_data()), static_cast<int64_t>(size_of(t.dtype())),
          broadcast_strides(t, shape)};
}

void run(const Shape& shape, const StridedOperand* operands, int count,
         FunctionRef<void(const StridedRow&)> row) {
  const int64_t total = numel_of(shape);
  if (total == 0) return;
  const LoopNest nest = make_nest(shape, operands, count);
  char* start[kMaxOperands];
  for (int k = 0; k < count; ++k) start[k] = operands[k].data;
  if (total <= kParallelGrain) {
    run_range(nest, start, 0, total, row);
    return;
  }
  parallel_for(total, kParallelGrain,
               [&](int64_t begin, int64_t end) { run_range(nest, start, begin, end, row); });
}

/// All operands dense in the same order as `out`: one row, no nest.
template <class... Inputs>
bool all_alike(const Tensor& out, const Inputs&... in) {
  return out.is_contiguous() && ((in.impl().shape == out.shape() && in.is_contiguous()) && ...);
}

template <class... Inputs>
void run_tensors(FunctionRef<void(const StridedRow&)> row, const Tensor& out, const Inputs&... in) {
  constexpr int kCount = 1 + static_cast<int>(sizeof...(in));
  const int64_t total = out.numel();
  if (total == 0) return;
  if (total <= kParallelGrain && all_alike(out, in...)) {
    char* const data[] = {static_cast<char*>(out.raw_data()), static_cast<char*>(in.raw_data())...};
    const int64_t step[] = {static_cast<int64_t>(size_of(out.dtype())),
                            static_cast<int64_t>(size_of(in.dtype()))...};
    row(StridedRow{data, step, total});
    return;
  }
  const StridedOperand operands[] = {operand_of(out, out.shape()), operand_of(in, out.shape())...};
  run(out.shape(), operands, kCount, row);
}

}  // namespace

Strides broadcast_strides(const Tensor& t, const Shape& shape) {
  Strides strides = Dims::filled(shape.size(), 0);
  const int lead = shape.size() - t.ndim();
  for (int d = 0; d < t.ndim(); ++d) {
    if (t.shape()[d] != 1) strides[lead + d] = t.strides()[d];
  }
  return strides;
}

void strided_loop(const Shape& shape, std::initializer_list<StridedOperand> operands,
                  FunctionRef<void(const StridedRow&)> row) {
  run(shape, operands.begin(), static_cast<int>(operands.size()), row);
}
void strided_loop(const Tensor& out, FunctionRef<void(const StridedRow&)> row) {
  run_tensors(row, out);
}
void strided_loop(const Tensor& out, const Tensor& a, FunctionRef<void(const StridedRow&)> row) {
  run_tensors(row, out, a);
}
void strided_loop(const Tensor& out, const Tensor& a, const Tensor& b,
                  FunctionRef<void(const StridedRow&)> row) {
  run_tensors(row, out, a, b);
}
void strided_loop(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& c,
                  FunctionRef<void(const StridedRow&)> row) {
  run_tensors(row, out, a, b, c);
}

}  // namespace lathe
