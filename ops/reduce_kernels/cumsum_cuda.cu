// CUDA kernels of cumsum. Dense lines (inner = 1) are scanned by blocks, columns by one thread
// each. Where that makes too few threads, lines are cut into chunks: a first kernel adds up each
// chunk, and the scan of a chunk starts from the sum of those before it. The order of the additions
// depends on the shape alone. Contract: cumsum.h.
#include <algorithm>

#include "lathe/core/ceil_div.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/ops/cumsum.h"
#include "lathe/ops/reduce_kernels/block_reduce.cuh"
#include "lathe/ops/reduce_kernels/cumsum_math.h"

namespace lathe {

namespace {

constexpr int kPerThread = 4;  // neighbours that a thread adds up in a block's scan

struct ChunkedLines {
  int64_t outer, n, inner;
  int64_t chunk, chunks;  // positions per chunk, and chunks per line
  bool reverse;

  /// The position in its line of the p-th number to be added.
  __device__ int64_t place(int64_t p) const { return reverse ? n - 1 - p : p; }
  __device__ int64_t end(int64_t first) const { return first + chunk < n ? first + chunk : n; }
};

struct Add {
  template <class A>
  __device__ A operator()(A a, A b) const {
    return a + b;
  }
};

/// The sum of `value` over the threads before this one; `total` becomes the sum over the block.
template <class A>
__device__ A block_exclusive_sum(A value, A* total) {
  LATHE_SHARED(A[cuda::kMostWarps], warp_totals);
  const unsigned lane = threadIdx.x % cuda::kWarpSize, warp = threadIdx.x / cuda::kWarpSize;
  A sum = value;
  for (unsigned delta = 1; delta < cuda::kWarpSize; delta *= 2) {
    const A below = cuda::shuffle_up(sum, delta);
    if (lane >= delta) sum += below;
  }
  const A before_lane = cuda::shuffle_up(sum, 1);
  __syncthreads();  // until all have read the `warp_totals` of an earlier call
  if (lane == cuda::kWarpSize - 1) warp_totals[warp] = sum;
  __syncthreads();
  A before_warp = A(0), all = A(0);
  for (unsigned w = 0; w < blockDim.x / cuda::kWarpSize; ++w) {
    if (w == warp) before_warp = all;
    all += warp_totals[w];
  }
  *total = all;
  return lane == 0 ? before_warp : before_warp + before_lane;
}

// One block per chunk of a dense line; reads sizeof(T) bytes per element.
template <class A, class T>
__global__ void line_sums_kernel(A* __restrict__ sums, const T* __restrict__ x,
                                 ChunkedLines lines) {
  for (int64_t item = blockIdx.x; item < lines.outer * lines.chunks; item += gridDim.x) {
    const int64_t first = item % lines.chunks * lines.chunk, end = lines.end(first);
    const T* line = x + item / lines.chunks * lines.n;
    A sum = A(0);
    for (int64_t p = first + threadIdx.x; p < end; p += blockDim.x) {
      sum += static_cast<A>(line[lines.place(p)]);
    }
    sum = cuda::block_reduce(sum, Add{});
    if (threadIdx.x == 0) sums[item] = sum;
  }
}

// One block per chunk of a dense line: tiles of kPerThread neighbours for each thread, one after
// another. sizeof(T) + sizeof(Out) bytes per element, and sizeof(T) more where lines are cut. Meant
// to reach 60 % of the copy bandwidth, because a tile waits for the sum of the one before.
template <class Out, class A, class T>
__global__ void line_scan_kernel(Out* __restrict__ y, const T* __restrict__ x,
                                 const A* __restrict__ sums, ChunkedLines lines) {
  for (int64_t item = blockIdx.x; item < lines.outer * lines.chunks; item += gridDim.x) {
    const int64_t c = item % lines.chunks, line = item / lines.chunks;
    const int64_t first = c * lines.chunk, end = lines.end(first);
    A carry = A(0);
    if (lines.chunks > 1) {
      for (int64_t k = threadIdx.x; k < c; k += blockDim.x) carry += sums[line * lines.chunks + k];
      carry = cuda::block_reduce_all(carry, Add{});
    }
    const T* from = x + line * lines.n;
    Out* to = y + line * lines.n;
    for (int64_t tile = first; tile < end; tile += int64_t(blockDim.x) * kPerThread) {
      const int64_t p = tile + int64_t(threadIdx.x) * kPerThread;
      A running[kPerThread], sum = A(0), total;
      for (int v = 0; v < kPerThread; ++v) {
        if (p + v < end) sum += static_cast<A>(from[lines.place(p + v)]);
        running[v] = sum;
      }
      const A before = carry + block_exclusive_sum(sum, &total);
      for (int v = 0; v < kPerThread; ++v) {
        if (p + v < end) to[lines.place(p + v)] = static_cast<Out>(before + running[v]);
      }
      carry += total;
    }
  }
}

// One thread per column and chunk, neighbouring threads on neighbouring columns.
template <class A, class T>
__global__ void column_sums_kernel(A* __restrict__ sums, const T* __restrict__ x,
                                   ChunkedLines lines) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  const int64_t count = lines.outer * lines.chunks * lines.inner;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < count; i += step) {
    const int64_t column = i % lines.inner, item = i / lines.inner;
    const int64_t first = item % lines.chunks * lines.chunk, end = lines.end(first);
    const T* line = x + item / lines.chunks * lines.n * lines.inner + column;
    A sum = A(0);
    for (int64_t p = first; p < end; ++p) {
      sum += static_cast<A>(line[lines.place(p) * lines.inner]);
    }
    sums[i] = sum;
  }
}

// The same threads, and the same bytes as for lines. Meant to reach 80 % of the copy bandwidth from
// 32 columns on, where all accesses are whole cache lines.
template <class Out, class A, class T>
__global__ void column_scan_kernel(Out* __restrict__ y, const T* __restrict__ x,
                                   const A* __restrict__ sums, ChunkedLines lines) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  const int64_t count = lines.outer * lines.chunks * lines.inner;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < count; i += step) {
    const int64_t column = i % lines.inner, item = i / lines.inner;
    const int64_t c = item % lines.chunks, line = item / lines.chunks;
    const int64_t first = c * lines.chunk, end = lines.end(first);
    A sum = A(0);
    for (int64_t k = 0; k < c; ++k) sum += sums[(line * lines.chunks + k) * lines.inner + column];
    const int64_t start = line * lines.n * lines.inner + column;
    for (int64_t p = first; p < end; ++p) {
      const int64_t at = start + lines.place(p) * lines.inner;
      sum += static_cast<A>(x[at]);
      y[at] = static_cast<Out>(sum);
    }
  }
}

constexpr int64_t kShortLine = 32;  // up to here, a thread scans a line as if it were a column

/// Cuts lines into enough chunks for every multiprocessor of an H200, unless chunks become short.
void cut(ChunkedLines& lines, int64_t pieces_wanted, int64_t shortest) {
  constexpr int64_t kMostChunks = 1024;  // because a chunk first reads the sums of the others
  const int64_t wanted = std::min(pieces_wanted / (lines.outer * lines.inner), kMostChunks);
  const int64_t chunks = std::clamp<int64_t>(wanted, 1, ceil_div(lines.n, shortest));
  lines.chunk = ceil_div(lines.n, chunks);
  lines.chunks = ceil_div(lines.n, lines.chunk);
}

template <class Out, class T>
void run(const Tensor& y, const Tensor& x, ChunkedLines lines) {
  using A = math::RunningSum<Out>;
  using Stored = std::conditional_t<std::is_integral_v<A>, int64_t, A>;
  constexpr int64_t kMultiprocessors = 132;
  const bool by_block = lines.inner == 1 && lines.n > kShortLine;
  cut(lines, kMultiprocessors * (by_block ? 8 : 2048), by_block ? 4096 : 64);
  const int64_t items = lines.outer * lines.chunks * lines.inner;
  LaunchSize size = launch_1d(items);
  if (by_block) {
    const int64_t threads = round_up(std::min<int64_t>(lines.n, 1024) / kPerThread, 32);
    size = {dim3(static_cast<unsigned>(std::min<int64_t>(items, INT32_MAX))),
            dim3(static_cast<unsigned>(std::max<int64_t>(threads, 32)))};
  }
  const Stream stream = current_stream(x.device());
  A* sums = nullptr;
  Tensor scratch;
  if (lines.chunks > 1) {
    scratch = empty({items}, {.dtype = dtype_of<Stored>, .device = x.device()});
    sums = static_cast<A*>(scratch.raw_data());
    launch(by_block ? line_sums_kernel<A, T> : column_sums_kernel<A, T>, size.grid, size.block, 0,
           stream, sums, x.data<T>(), lines);
  }
  launch(by_block ? line_scan_kernel<Out, A, T> : column_scan_kernel<Out, A, T>, size.grid,
         size.block, 0, stream, y.data<Out>(), x.data<T>(), sums, lines);
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void cuda::cumsum(const Tensor& y, const Tensor& x, int64_t n, int64_t inner, bool reverse) {
  if (x.numel() == 0) return;
  const ChunkedLines lines{x.numel() / (n * inner), n, inner, n, 1, reverse};
  visit_all(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Out = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
    run<Out, T>(y, x, lines);
  });
}

}  // namespace lathe
