// CUDA kernels of sort, argsort and topk. Tiles of a line are sorted in shared memory, then merged
// two by two. Only the first k of each run are kept, so that topk of a long line moves little. The
// order is total (sort_order.h), so the result is unique and stable. Contracts: sort.h.
#include <algorithm>
#include <bit>
#include <utility>

#include "lathe/core/ceil_div.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/visit.h"
#include "lathe/ops/index_kernels/sort_order.h"
#include "lathe/ops/sort.h"

namespace lathe::cuda {

namespace {

constexpr int kTile = 1024;  // elements that one block sorts
constexpr unsigned kThreads = 256;
constexpr int kPadding = -1;  // the index of elements beyond the end of a line

/// Where elements lie: element i of line l of a contiguous [outer, n, inner].
struct LineLayout {
  int64_t n, inner;
  LATHE_HD int64_t at(int64_t line, int64_t i) const {
    return (line / inner * n + i) * inner + line % inner;
  }
};

/// Values, and their indices in their line of the input.
template <class T>
struct Keys {
  T* values;
  int64_t* places;
  LineLayout lines;
};

template <class Element>
__device__ bool tile_comes_first(const Element& a, const Element& b, bool descending) {
  if (a.at == kPadding || b.at == kPadding) return a.at != kPadding;
  return comes_first(a, b, descending);
}

// One block sorts kTile elements by a bitonic network in shared memory: one tile of a long line, or
// several lines, each filled up to a power of two `width`. Tile s of line l keeps its first `kept`
// elements, at s * kept of l in `to`. Its 55 steps with a barrier each bound it, not memory: about
// 1/4 of the copy bandwidth for f32.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sort_tiles_kernel(Keys<T> to, const T* __restrict__ x, LineLayout from, int64_t lines,
                      int width, int64_t kept, bool descending) {
  using Element = SortElement<ComputeType<T>, int>;
  LATHE_SHARED(T[kTile], value);
  LATHE_SHARED(int[kTile], place);
  const int64_t tiles_per_line = ceil_div(from.n, width), tiles = lines * tiles_per_line;
  const int tiles_per_block = kTile / width;
  for (int64_t first = int64_t(blockIdx.x) * tiles_per_block; first < tiles;
       first += int64_t(gridDim.x) * tiles_per_block) {
    for (int t = threadIdx.x; t < kTile; t += kThreads) {
      const int64_t tile = first + t / width, line = tile / tiles_per_line;
      const int64_t i = tile % tiles_per_line * width + t % width;
      const bool inside = tile < tiles && i < from.n;
      place[t] = inside ? t % width : kPadding;
      if (inside) value[t] = x[from.at(line, i)];
    }
    __syncthreads();
    for (int size = 2; size <= width; size *= 2) {
      for (int stride = size / 2; stride > 0; stride /= 2) {
        for (int pair = threadIdx.x; pair < kTile / 2; pair += kThreads) {
          const int i = pair / stride * 2 * stride + pair % stride, j = i + stride;
          const Element a{place[i] == kPadding ? ComputeType<T>() : ComputeType<T>(value[i]),
                          place[i]};
          const Element b{place[j] == kPadding ? ComputeType<T>() : ComputeType<T>(value[j]),
                          place[j]};
          const bool upwards = (i & (width - 1) & size) == 0;
          const bool exchange =
              upwards ? tile_comes_first(b, a, descending) : tile_comes_first(a, b, descending);
          if (exchange) {
            const T moved = value[i];
            value[i] = value[j];
            value[j] = moved;
            place[i] = b.at;
            place[j] = a.at;
          }
        }
        __syncthreads();
      }
    }
    for (int t = threadIdx.x; t < kTile; t += kThreads) {
      const int64_t tile = first + t / width, line = tile / tiles_per_line;
      if (place[t] == kPadding || t % width >= kept) continue;
      const int64_t number = tile % tiles_per_line;
      const int64_t at = to.lines.at(line, number * kept + t % width);
      to.values[at] = value[t];
      to.places[at] = number * width + place[t];
    }
    __syncthreads();  // before the next tile overwrites this one
  }
}

// Merges runs 2r and 2r + 1 (of `run` elements, the last one shorter) of every line into one of at
// most `kept`. One thread per element: its position in the result is its position in its run plus
// the number of elements of the other run that come before it, found by bisection. 2 (sizeof(T) +
// 8) bytes per element and pass, and log2(run) reads from the caches, which bound it to about 1/3
// of the copy bandwidth.
template <class T>
__global__ void merge_runs_kernel(Keys<T> to, Keys<T> from, int64_t lines, int64_t run,
                                  int64_t kept, bool descending) {
  using Element = SortElement<ComputeType<T>, int64_t>;
  const int64_t n = from.lines.n, step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; e < lines * n; e += step) {
    const int64_t line = e / n, i = e % n, number = i / run;
    const T value = from.values[e];
    const Element own{ComputeType<T>(value), from.places[e]};
    const int64_t other = (number ^ 1) * run;  // where the other run begins
    int64_t low = 0, high = other >= n ? 0 : n - other < run ? n - other : run;
    while (low < high) {
      const int64_t middle = (low + high) / 2, m = line * n + other + middle;
      const Element element{ComputeType<T>(from.values[m]), from.places[m]};
      if (comes_first(element, own, descending)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const int64_t position = i % run + low;
    if (position >= kept) continue;
    const int64_t at = to.lines.at(line, number / 2 * kept + position);
    to.values[at] = value;
    to.places[at] = own.at;
  }
}

/// Runs of one length, the last one shorter, in a line of n elements.
struct Runs {
  int64_t n, length;

  int64_t count() const { return ceil_div(n, length); }
  /// The runs after merging in pairs, of which the first k elements are kept.
  Runs merged(int64_t k) const {
    const int64_t last_pair = (count() - 1) / 2 * 2 * length;  // where it begins
    const int64_t kept = std::min(2 * length, k);
    return {(count() - 1) / 2 * kept + std::min(n - last_pair, k), kept};
  }
};

/// Scratch memory for `lines` lines, one after another.
template <class T>
struct Scratch {
  Tensor values, places;

  Scratch(int64_t lines, int64_t n, DType dtype, Device device)
      : values(empty({lines * n}, {.dtype = dtype, .device = device})),
        places(empty({lines * n}, {.dtype = kI64, .device = device})) {}
  Keys<T> keys(int64_t n) const {
    return {static_cast<T*>(values.raw_data()), places.data<int64_t>(), {n, 1}};
  }
};

template <class T>
void run_sort(const Keys<T>& to, const Tensor& x, int64_t k, LineLayout from, bool descending) {
  const Stream stream = current_stream(x.device());
  const int64_t lines = x.numel() / from.n;
  const auto width = static_cast<int>(std::min<uint64_t>(
      kTile, std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(from.n, 2)))));
  const int64_t tiles = lines * ceil_div(from.n, width);
  const auto blocks =
      static_cast<unsigned>(std::min<int64_t>(ceil_div(tiles * width, kTile), int64_t{1} << 30));
  const auto sort_tiles = [&](const Keys<T>& result, int64_t kept) {
    launch(sort_tiles_kernel<T>, dim3(blocks), dim3(kThreads), 0, stream, result,
           static_cast<const T*>(x.raw_data()), from, lines, width, kept, descending);
    LATHE_CUDA_CHECK(cudaGetLastError());
  };
  if (from.n <= width) return sort_tiles(to, k);

  const int64_t kept = std::min<int64_t>(width, k), last = (from.n - 1) / width * width;
  Runs runs{last / width * kept + std::min(from.n - last, k), kept};
  const Scratch<T> first(lines, runs.n, x.dtype(), x.device());
  const Scratch<T> second(lines, runs.merged(k).n, x.dtype(), x.device());
  Keys<T> source = first.keys(runs.n), target = second.keys(runs.n);
  sort_tiles(source, kept);
  while (runs.count() > 1) {
    const Runs merged = runs.merged(k);
    target = merged.count() == 1 ? to : Keys<T>{target.values, target.places, {merged.n, 1}};
    const auto [grid, block] = launch_1d(lines * runs.n);
    launch(merge_runs_kernel<T>, grid, block, 0, stream, target, source, lines, runs.length,
           merged.length, descending);
    LATHE_CUDA_CHECK(cudaGetLastError());
    std::swap(source, target);
    runs = merged;
  }
}

}  // namespace

void sort(const Tensor& values, const Tensor& indices, const Tensor& x, int64_t n, int64_t k,
          int64_t inner, bool descending) {
  if (values.numel() == 0) return;
  const DType dtype = x.dtype() == kBool ? kU8 : x.dtype();  // false and true are 0 and 1
  visit_number(dtype, "sort", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Keys<T> to{static_cast<T*>(values.raw_data()), indices.data<int64_t>(), {k, inner}};
    run_sort<T>(to, x, k, {n, inner}, descending);
  });
}

}  // namespace lathe::cuda
