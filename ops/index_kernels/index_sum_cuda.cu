// CUDA kernels of ops/index.h that add at given positions, without atomics on floats. One thread
// computes each sum, in the order of the index, as on the CPU: the same bits in every run. An index
// out of range sets the fault record and is left out.
//
// There are two ways. For many lines, or short ones, one thread goes along each line. Otherwise the
// indices of each line are sorted (ops/sort: stable, so equal indices stay in order), and the
// thread at the start of each run of equal indices adds up the run. The sort costs about 10 passes
// over 16 bytes per index for lines of a million; then there are as many threads as different
// indices.
#include "lathe/core/copy.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/raise_fault.cuh"
#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/core/visit.h"
#include "lathe/ops/index.h"
#include "lathe/ops/sort.h"

namespace lathe::cuda {

namespace {

/// Lines of x and y along the summed dimension: where each begins (`starts` gives y's and x's
/// offset), and its steps.
template <class Index>
struct SumLines {
  StridedIndex<3, Index> starts;  // of y, of x, of the index
  Index count;
  int64_t length;  // of x's and the index's lines
  int64_t size;    // of y's lines
  int64_t step_y, step_x, step_index;
};

// y[line, index[k]] += x[line, k] for k = 0, 1, …; y holds zeros. One thread per line; neighbouring
// threads take neighbouring lines. It is a chain of dependent loads and stores, for short lines or
// very many.
template <class T, class Index>
__global__ void sum_lines_kernel(T* y, const T* __restrict__ x, const int64_t* __restrict__ index,
                                 SumLines<Index> lines, const char* op, DeviceFault* fault) {
  const Index step = gridDim.x * blockDim.x;
  for (Index line = blockIdx.x * blockDim.x + threadIdx.x; line < lines.count; line += step) {
    const auto at = lines.starts(line);
    for (int64_t k = 0; k < lines.length; ++k) {
      const int64_t place = index[at[2] + k * lines.step_index];
      if (place < 0 || place >= lines.size) {
        raise_fault(fault, op, static_cast<int64_t>(line) * lines.length + k, place, lines.size);
        continue;
      }
      T& sum = y[at[0] + place * lines.step_y];
      sum = static_cast<T>(sum + x[at[1] + k * lines.step_x]);
    }
  }
}

/// The sorted indices with their positions in their line: [outer, length, inner], or one line for
/// all.
struct SortedLines {
  const int64_t* keys;
  const int64_t* places;
  int64_t step, outer_step, inner_step;
};

// The same from sorted indices. One thread per element of [outer, length, inner]. The thread of the
// first of equal indices adds up all of them; the others end at once. Bound by reading rows of
// `inner` elements of x, out of order.
template <class T, class Index>
__global__ void sum_runs_kernel(T* y, const T* __restrict__ x, SortedLines sorted,
                                SumLines<Index> lines, Divider<Index> inner, Divider<Index> length,
                                const char* op, DeviceFault* fault) {
  const Index n = lines.count * static_cast<Index>(lines.length), step = gridDim.x * blockDim.x;
  for (Index i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    const Index row = inner.quotient(i), outer = length.quotient(row);
    const Index column = i - row * inner.divisor();
    const int64_t first = row - outer * length.divisor();
    const int64_t begin = outer * sorted.outer_step + column * sorted.inner_step;
    const int64_t* const keys = sorted.keys + begin;
    const int64_t* const places = sorted.places + begin;
    const int64_t key = keys[first * sorted.step];
    if (first > 0 && keys[(first - 1) * sorted.step] == key) continue;
    if (key < 0 || key >= lines.size) {
      raise_fault(fault, op, places[first * sorted.step], key, lines.size);
      continue;
    }
    const auto at = lines.starts(outer * inner.divisor() + column);
    T sum = T(0.0f);
    for (int64_t k = first; k < lines.length && keys[k * sorted.step] == key; ++k) {
      sum = static_cast<T>(sum + x[at[1] + places[k * sorted.step] * lines.step_x]);
    }
    y[at[0] + key * lines.step_y] = sum;
  }
}

template <class F>
void visit_index(bool small, F&& f) {
  if (small) return f(TypeTag<uint32_t>{});
  f(TypeTag<uint64_t>{});
}

/// y = 0, then y += x at `index` along dim. index has x's shape, or is expanded to it with stride
/// 0.
void sum_at(const char* op, const Tensor& y, const Tensor& x, int dim, const Tensor& index) {
  fill_values(y, 0);
  if (x.numel() == 0 || y.numel() == 0) return;
  Shape shape = x.shape();
  const int64_t length = shape[dim], count = x.numel() / length;
  int64_t inner = 1;
  for (int d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  shape[dim] = 1;
  const StridedOperand operands[] = {
      {nullptr, 1, y.strides()}, {nullptr, 1, x.strides()}, {nullptr, 1, index.strides()}};
  const LoopNest nest = make_nest(shape, operands, 3, LoopOrder::kRowMajor);
  const bool small = fits_32_bits(nest) && x.numel() < (int64_t{1} << 31);

  constexpr int64_t kManyLines = 132 * 256, kShortLine = 32;
  const bool along_lines = length <= kShortLine || count >= kManyLines;
  Tensor keys, places;
  SortedLines sorted{};
  if (!along_lines) {
    bool shared = true;  // all lines have the same indices
    for (int d = 0; d < shape.size(); ++d) {
      shared = shared && (shape[d] == 1 || index.strides()[d] == 0);
    }
    const int64_t sort_inner = shared ? 1 : inner;
    const Tensor dense =
        empty({shared ? length : x.numel()}, {.dtype = kI64, .device = x.device()});
    const Shape dense_shape = shared ? Shape{length} : x.shape();
    const Tensor source =
        shared ? alias(index, dense_shape, {index.strides()[dim]}, index.offset()) : index;
    copy_values(alias(dense, dense_shape, contiguous_strides(dense_shape), dense.offset()), source);
    keys = empty_like(dense);
    places = empty_like(dense);
    cuda::sort(keys, places, dense, length, length, sort_inner, false);
    sorted = {keys.data<int64_t>(), places.data<int64_t>(), sort_inner, shared ? 0 : length * inner,
              shared ? 0 : 1};
  }
  visit_number(x.dtype(), op, [&](auto tag) {
    using T = typename decltype(tag)::type;
    visit_index(small, [&](auto index_tag) {
      using Index = typename decltype(index_tag)::type;
      const SumLines<Index> lines{StridedIndex<3, Index>(nest),
                                  static_cast<Index>(count),
                                  length,
                                  y.shape()[dim],
                                  y.strides()[dim],
                                  x.strides()[dim],
                                  index.strides()[dim]};
      const auto [grid, block] = launch_1d(along_lines ? count : x.numel());
      const Stream stream = current_stream(x.device());
      DeviceFault* const fault = device_fault(x.device());
      if (along_lines) {
        launch(sum_lines_kernel<T, Index>, grid, block, 0, stream, y.data<T>(), x.data<T>(),
               index.data<int64_t>(), lines, op, fault);
      } else {
        launch(sum_runs_kernel<T, Index>, grid, block, 0, stream, y.data<T>(), x.data<T>(), sorted,
               lines, Divider<Index>(inner), Divider<Index>(length), op, fault);
      }
    });
  });
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void index_sum(const Tensor& y, const Tensor& x, const Tensor& index) {
  const Tensor expanded =
      alias(index, x.shape(), {0, index.numel() > 0 ? index.stride(0) : 1, 0}, index.offset());
  sum_at("index_add", y, x, 1, expanded);
}

void scatter_sum(const Tensor& y, const Tensor& x, int dim, const Tensor& index) {
  sum_at("scatter_add", y, x, dim, index);
}

}  // namespace lathe::cuda
