// Walks a loop nest on the CPU, in parallel.
#include "lathe/core/strided_loop.h"

#include <algorithm>
#include <cstdlib>

#include "lathe/core/fetch_ahead.h"
#include "lathe/core/loop_nest.h"
#include "lathe/core/thread_pool.h"

namespace lathe {

namespace {

constexpr int64_t kPieceBytes = 512;
constexpr int64_t kCachedBytes = 1 << 20;  // operands up to here are probably in the cache

/// Runs one row in pieces, and prefetches for each what comes kFetchAheadBytes later. Ops of many
/// instructions would wait for memory. (gelu of 64 MiB took 2.2 times as long.)
void run_long_row(char** data, const int64_t* step, int operands, int64_t n, int64_t piece,
                  FunctionRef<void(const StridedRow&)> row) {
  constexpr int64_t kMostStep = 16;
  for (int64_t first = 0; first < n; first += piece) {
    const int64_t count = std::min(piece, n - first);
    for (int k = 0; k < operands; ++k) {
      const bool is_dense = step[k] > 0 && step[k] <= kMostStep;
      if (is_dense) fetch_ahead(data[k], count * step[k]);
    }
    row(StridedRow{data, step, count});
    for (int k = 0; k < operands; ++k) data[k] += count * step[k];
  }
}

/// Runs the elements [begin, end) of the nest's linear order.
void run_range(const LoopNest& nest, char* const* start, int64_t begin, int64_t end,
               FunctionRef<void(const StridedRow&)> row) {
  const int64_t* step = nest.dims[0].step;
  const int64_t elements = nest.numel();  // not of the range, which is one of many
  int64_t widest = 1, bytes = 0;
  for (int k = 0; k < nest.operands; ++k) {
    widest = std::clamp(step[k], widest, int64_t{8});
    bytes += elements * std::abs(step[k]);
  }
  const int64_t piece = bytes <= kCachedBytes ? end - begin : kPieceBytes / widest;
  each_row<kMaxOperands>(nest, begin, end, [&](const int64_t* offset, int64_t first, int64_t n) {
    char* data[kMaxOperands];
    for (int k = 0; k < nest.operands; ++k) data[k] = start[k] + offset[k] + first * step[k];
    if (n > piece) return run_long_row(data, step, nest.operands, n, piece, row);
    row(StridedRow{data, step, n});
  });
}

StridedOperand operand_of(const Tensor& t, const Shape& shape) {
  return {static_cast<char*>(t.raw_data()), static_cast<int64_t>(size_of(t.dtype())),
          broadcast_strides(t, shape)};
}

void run(const Shape& shape, const StridedOperand* operands, int count,
         FunctionRef<void(const StridedRow&)> row) {
  const int64_t total = numel_of(shape);
  if (total == 0) return;
  const LoopNest nest = make_nest(shape, operands, count, LoopOrder::kDensestInside);
  char* start[kMaxOperands];
  for (int k = 0; k < count; ++k) start[k] = operands[k].data;
  if (total <= kParallelGrain) {
    run_range(nest, start, 0, total, row);
    return;
  }
  parallel_for(total, kParallelGrain,
               [&](int64_t begin, int64_t end) { run_range(nest, start, begin, end, row); });
}

/// True if all operands are row-major and of out's shape: then one row does without a nest.
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
