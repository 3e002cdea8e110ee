// CUDA kernels of ops/resample.h. The tables of the map travel in the kernel's parameters and are
// laid out in shared memory, so nothing is copied to the device and nothing waits. Only maps with
// more than about a hundred outputs (rows and columns together) have tables in device memory,
// copied there in each call.
#include <algorithm>
#include <limits>
#include <vector>

#include "lathe/core/copy.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/ops/reduce_kernels/block_reduce.cuh"
#include "lathe/ops/reduce_kernels/reduce_math.h"
#include "lathe/ops/resample.h"
#include "lathe/ops/window_kernels/plane_index.cuh"

namespace lathe::cuda {

namespace {

/// Where the parts of a map lie in its two tables:
///   numbers: the begins and offsets of the rows, then those of the columns
///   reals:   the weights and divisors of the rows, then those of the columns
struct MapLayout {
  int32_t rows, row_weights, cols, col_weights;  // outputs and weights of each axis
  int32_t numbers() const { return 2 * (rows + cols) + 2; }
  int32_t reals() const { return rows + row_weights + cols + col_weights; }
};

struct AxisView {
  const int32_t *begin, *offset;
  const double *weight, *divisor;
};
struct MapView {
  AxisView rows, cols;

  LATHE_HD MapView(const MapLayout& at, const int32_t* numbers, const double* reals)
      : rows{numbers, numbers + at.rows, reals, reals + at.row_weights} {
    const int32_t* col_numbers = numbers + 2 * at.rows + 1;
    const double* col_reals = reals + at.row_weights + at.rows;
    cols = {col_numbers, col_numbers + at.cols, col_reals, col_reals + at.col_weights};
  }
};

/// Tables small enough for the kernel's parameters.
struct SmallTables {
  static constexpr int kReals = 224, kNumbers = 448;
  double reals[kReals];
  int32_t numbers[kNumbers];

  __device__ MapView view(const MapLayout& layout) const {
    LATHE_SHARED(double[kReals], shared_reals);
    LATHE_SHARED(int32_t[kNumbers], shared_numbers);
    for (int i = threadIdx.x; i < kReals; i += blockDim.x) shared_reals[i] = reals[i];
    for (int i = threadIdx.x; i < kNumbers; i += blockDim.x) shared_numbers[i] = numbers[i];
    __syncthreads();
    return {layout, shared_numbers, shared_reals};
  }
};

/// Tables in device memory.
struct LargeTables {
  const double* reals;
  const int32_t* numbers;

  __device__ MapView view(const MapLayout& layout) const { return {layout, numbers, reals}; }
};

/// The planes that are read.
struct Source {
  int64_t height, width, packets;  // packets per pixel
  LATHE_HD int64_t at(int64_t plane, int64_t h, int64_t w, int64_t packet) const {
    return ((plane * height + h) * width + w) * packets + packet;
  }
};

// y = rows * x * columns^T. One thread per packet of y: V neighbouring channels (16 bytes) in NHWC,
// one number in row-major order. The sums are made in the CPU's order. Memory bound: sizeof(T) per
// element of x and of y. Meant to reach 80 % of the copy bandwidth where windows do not overlap
// (average pooling) or few inputs are read often, from the caches (upsampling).
template <class T, int V, class Index, class Tables>
__global__ void resample_kernel(Packet<T, V>* __restrict__ y, const Packet<T, V>* __restrict__ x,
                                Tables tables, MapLayout layout, Source source,
                                Planes<Index> outputs) {
  using S = ComputeType<T>;
  const MapView map = tables.view(layout);
  const Index step = gridDim.x * blockDim.x;
  for (Index i = blockIdx.x * blockDim.x + threadIdx.x; i < outputs.total; i += step) {
    const Pixel out = pixel_of(outputs, i);
    const int32_t row = map.rows.begin[out.row], col = map.cols.begin[out.col];
    const int32_t first_row = map.rows.offset[out.row], first_col = map.cols.offset[out.col];
    const int32_t row_taps = map.rows.offset[out.row + 1] - first_row;
    const int32_t col_taps = map.cols.offset[out.col + 1] - first_col;
    S sum[V] = {};
    for (int32_t c = 0; c < col_taps; ++c) {
      S column[V] = {};
      for (int32_t r = 0; r < row_taps; ++r) {
        const S weight = S(map.rows.weight[first_row + r]);
        const Packet<T, V> value = x[source.at(out.plane, row + r, col + c, out.packet)];
        for (int v = 0; v < V; ++v) column[v] += weight * S(value.v[v]);
      }
      const S weight = S(map.cols.weight[first_col + c]);
      for (int v = 0; v < V; ++v) sum[v] += weight * column[v];
    }
    const S divisor = S(map.rows.divisor[out.row] * map.cols.divisor[out.col]);
    Packet<T, V> result;
    for (int v = 0; v < V; ++v) result.v[v] = T(sum[v] / divisor);
    y[i] = result;
  }
}

// The same for row-major planes and large windows (global pooling). One warp per output: its lanes
// divide the taps and add up in a tree. Memory bound by reading x once, in rows of a window. Meant
// to reach 80 % of the read bandwidth where windows have rows of 32 and more.
template <class T, class Index, class Tables>
__global__ void resample_windows_kernel(T* __restrict__ y, const T* __restrict__ x, Tables tables,
                                        MapLayout layout, Source source, Planes<Index> outputs) {
  using S = ComputeType<T>;
  const MapView map = tables.view(layout);
  const Index warps = gridDim.x * (blockDim.x / kWarpSize);
  const auto lane = static_cast<int32_t>(threadIdx.x % kWarpSize);
  for (Index i = blockIdx.x * (blockDim.x / kWarpSize) + threadIdx.x / kWarpSize; i < outputs.total;
       i += warps) {
    const Pixel out = pixel_of(outputs, i);
    const int32_t row = map.rows.begin[out.row], col = map.cols.begin[out.col];
    const int32_t first_row = map.rows.offset[out.row], first_col = map.cols.offset[out.col];
    const int32_t col_taps = map.cols.offset[out.col + 1] - first_col;
    const int32_t taps = (map.rows.offset[out.row + 1] - first_row) * col_taps;
    S sum = 0;
    for (int32_t t = lane; t < taps; t += kWarpSize) {
      const int32_t r = t / col_taps, c = t - r * col_taps;
      const S weight = S(map.rows.weight[first_row + r]) * S(map.cols.weight[first_col + c]);
      sum += weight * S(x[source.at(out.plane, row + r, col + c, 0)]);
    }
    sum = warp_reduce(sum, Step<reduce_math::Sum<S>>());
    const S divisor = S(map.rows.divisor[out.row] * map.cols.divisor[out.col]);
    if (lane == 0) y[i] = T(sum / divisor);
  }
}

void append(const AxisMap& axis, std::vector<int32_t>& numbers, std::vector<double>& reals) {
  const auto narrow = [](int64_t n) { return static_cast<int32_t>(n); };
  std::ranges::transform(axis.begin, std::back_inserter(numbers), narrow);
  std::ranges::transform(axis.offset, std::back_inserter(numbers), narrow);
  reals.insert(reals.end(), axis.weight.begin(), axis.weight.end());
  reals.insert(reals.end(), axis.divisor.begin(), axis.divisor.end());
}

/// `values` in device memory. The copy is queued; the host's memory is free afterwards.
template <class T>
Tensor to_device_bytes(std::vector<T>& values, Device device) {
  const Tensor host = from_blob(values.data(), {static_cast<int64_t>(values.size())});
  const Tensor copy = empty(host.shape(), {.dtype = host.dtype(), .device = device});
  copy_values(copy, host);
  return copy;
}

template <class Tables>
void run(const Tensor& y, const Tensor& x, const PlaneMap& map, const Tables& tables,
         const MapLayout& layout) {
  const int64_t inner = numbers_per_pixel(x, y);
  const Stream stream = current_stream(x.device());
  constexpr int64_t kLargeWindow = 64;
  const bool large =
      int64_t{layout.row_weights} * layout.col_weights >= kLargeWindow * layout.rows * layout.cols;
  visit_float(x.dtype(), "resample", [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (inner == 1 && large) {
      const auto [grid, block] = launch_1d(y.numel() * kWarpSize);
      const auto start = [&, g = grid, b = block](auto index_tag) {
        using Index = typename decltype(index_tag)::type;
        launch(resample_windows_kernel<T, Index, Tables>, g, b, 0, stream, y.data<T>(), x.data<T>(),
               tables, layout, Source{map.rows.in, map.columns.in, 1},
               planes_of<Index>(y, inner, 1));
      };
      y.numel() < (int64_t{1} << 31) ? start(TypeTag<uint32_t>{}) : start(TypeTag<uint64_t>{});
      return;
    }
    visit_packets<T>(
        inner, y.raw_data(), x.raw_data(), nullptr, y.numel(), [&](auto width, auto index_tag) {
          constexpr int V = decltype(width)::value;
          using Index = typename decltype(index_tag)::type;
          const auto [grid, block] = launch_1d(y.numel() / V);
          launch(resample_kernel<T, V, Index, Tables>, grid, block, 0, stream,
                 static_cast<Packet<T, V>*>(y.raw_data()),
                 static_cast<const Packet<T, V>*>(x.raw_data()), tables, layout,
                 Source{map.rows.in, map.columns.in, inner / V}, planes_of<Index>(y, inner, V));
        });
  });
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void resample(const Tensor& y, const Tensor& x, const PlaneMap& map) {
  if (y.numel() == 0) return;
  const auto size = [](const auto& values) { return static_cast<int64_t>(values.size()); };
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 8;
  for (const AxisMap* axis : {&map.rows, &map.columns}) {
    LATHE_CHECK(ValueError, size(axis->weight) < kMost && axis->out() < kMost && axis->in < kMost,
                "resample: an axis of ", axis->in, " with ", axis->out(), " outputs and ",
                size(axis->weight), " weights is too long");
  }
  const MapLayout layout{
      static_cast<int32_t>(map.rows.out()), static_cast<int32_t>(size(map.rows.weight)),
      static_cast<int32_t>(map.columns.out()), static_cast<int32_t>(size(map.columns.weight))};
  std::vector<int32_t> numbers;
  std::vector<double> reals;
  append(map.rows, numbers, reals);
  append(map.columns, numbers, reals);
  if (layout.numbers() <= SmallTables::kNumbers && layout.reals() <= SmallTables::kReals) {
    SmallTables tables = {};
    std::ranges::copy(reals, tables.reals);
    std::ranges::copy(numbers, tables.numbers);
    return run(y, x, map, tables, layout);
  }
  const Tensor device_reals = to_device_bytes(reals, x.device());
  const Tensor device_numbers = to_device_bytes(numbers, x.device());
  run(y, x, map, LargeTables{device_reals.data<double>(), device_numbers.data<int32_t>()}, layout);
}

}  // namespace lathe::cuda
