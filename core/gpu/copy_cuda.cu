// CUDA kernels of core/copy.h: pointwise conversion, and transposition through shared memory if
// source and destination are dense along different dimensions.
#include "lathe/core/ceil_div.h"
#include "lathe/core/convert.h"
#include "lathe/core/copy.h"
#include "lathe/core/gpu/pointwise.cuh"

namespace lathe::cuda {

namespace {

template <class To>
struct Convert {
  template <class From>
  LATHE_HD To operator()(From value) const {
    return convert<To>(value);
  }
};

template <class T>
struct Fill {
  T value;
  LATHE_HD T operator()() const { return value; }
};

constexpr int kTileThreads = 256;

/// The tiles of one transposition. Both matrices are [rows, columns]; the source is dense along
/// columns, the destination along rows.
struct Tiles {
  StridedIndex<4> index;  // tile → offset in the destination, in the source, its row, its column
  uint32_t count;
  int32_t rows, columns;
  int32_t column_step, row_step;  // of the destination, of the source
};

// One block per tile of Edge x Edge elements. It reads packets of P elements along columns, turns
// the tile in shared memory and writes packets along rows. A thread reads all of its packets before
// it stores the first, so that 32 to 64 bytes per thread are under way. The rows of shared memory
// are padded by one word against bank conflicts.
// Memory bound: 2 * sizeof(T) bytes per element. It is meant to reach 80 % of the copy bandwidth,
// because each block waits for its own tile, and the matrix's edges leave threads idle.
template <int Edge, int P, class T>
__global__ void __launch_bounds__(kTileThreads)
    transpose_kernel(T* __restrict__ out, const T* __restrict__ in, Tiles tiles) {
  constexpr int kPad = sizeof(T) < 4 ? 4 / static_cast<int>(sizeof(T)) : 1;
  constexpr int kAcross = Edge / P, kDown = kTileThreads / kAcross, kHeld = Edge / kDown;
  LATHE_SHARED(T[Edge][Edge + kPad], tile);
  const int x = static_cast<int>(threadIdx.x) % kAcross * P;
  const int y = static_cast<int>(threadIdx.x) / kAcross;
  for (uint32_t t = blockIdx.x; t < tiles.count; t += gridDim.x) {  // the same for a whole block
    const auto at = tiles.index(t);
    const int rows = tiles.rows - at[2], columns = tiles.columns - at[3];
    Packet<T, P> held[kHeld] = {};
    for (int k = 0; k < kHeld; ++k) {
      const int r = y + k * kDown;
      if (r < rows && x < columns)
        held[k] = *reinterpret_cast<const Packet<T, P>*>(in + at[1] + r * tiles.row_step + x);
    }
    for (int k = 0; k < kHeld; ++k) {
      for (int v = 0; v < P; ++v) tile[y + k * kDown][x + v] = held[k].v[v];
    }
    __syncthreads();
    for (int k = 0; k < kHeld; ++k) {
      const int c = y + k * kDown;
      Packet<T, P> line;
      for (int v = 0; v < P; ++v) line.v[v] = tile[x + v][c];
      if (x < rows && c < columns)
        *reinterpret_cast<Packet<T, P>*>(out + at[0] + c * tiles.column_step + x) = line;
    }
    __syncthreads();
  }
}

Tiles tiles_of(const LoopNest& nest, int across, int edge) {
  const LoopDim &row = nest.dims[0], &column = nest.dims[across];
  const auto tiles_along = [edge](int64_t size) { return ceil_div(size, edge); };
  LoopNest tiles;
  tiles.operands = 4;
  tiles.dims[0] = {tiles_along(row.size), {edge, edge * row.step[1], edge, 0}};
  tiles.dims[1] = {tiles_along(column.size), {edge * column.step[0], edge, 0, edge}};
  tiles.ndim = 2;
  for (int d = 1; d < nest.ndim; ++d) {
    const LoopDim& dim = nest.dims[d];
    if (d != across) tiles.dims[tiles.ndim++] = {dim.size, {dim.step[0], dim.step[1], 0, 0}};
  }
  return {StridedIndex<4>(tiles),
          static_cast<uint32_t>(tiles.numel()),
          static_cast<int32_t>(row.size),
          static_cast<int32_t>(column.size),
          static_cast<int32_t>(column.step[0]),
          static_cast<int32_t>(row.step[1])};
}

/// Whether rows, columns and their steps allow packets of P elements in both matrices.
template <int P, class T>
bool fits_packets(const LoopNest& nest, int across, const T* out, const T* in) {
  if (!holds_packets<P>(out) || !holds_packets<P>(in)) return false;
  if (nest.dims[0].size % P != 0 || nest.dims[across].size % P != 0) return false;
  for (int d = 0; d < nest.ndim; ++d) {
    if (d != 0 && nest.dims[d].step[0] % P != 0) return false;
    if (d != across && nest.dims[d].step[1] % P != 0) return false;
  }
  return true;
}

/// Copies elements of T's size, whatever they are. Returns false, and does nothing, unless the copy
/// is a transposition.
template <class T>
bool transpose(const Tensor& dst, const Tensor& src) {
  constexpr int kEdge = sizeof(T) < 8 ? 64 : 32, kPacket = sizeof(T) < 8 ? 8 / sizeof(T) : 1;
  constexpr int64_t kMostBlocks = 132 * 8;  // 2,048 threads for each of an H200's multiprocessors
  const StridedOperand operands[] = {{nullptr, 1, dst.strides()},
                                     {nullptr, 1, broadcast_strides(src, dst.shape())}};
  const LoopNest nest = make_nest(dst.shape(), operands, 2, LoopOrder::kDensestInside);
  const int across = dimension_across(nest);
  if (across == 0) return false;
  each_32_bit_part(nest, [&](const LoopNest& part, const int64_t* start) {
    T* const to = static_cast<T*>(dst.raw_data()) + start[0];
    const T* const from = static_cast<const T*>(src.raw_data()) + start[1];
    const Tiles tiles = tiles_of(part, across, kEdge);
    const auto blocks = static_cast<unsigned>(std::min<int64_t>(tiles.count, kMostBlocks));
    const auto kernel = fits_packets<kPacket>(part, across, to, from)
                            ? transpose_kernel<kEdge, kPacket, T>
                            : transpose_kernel<kEdge, 1, T>;
    launch(kernel, dim3(blocks), dim3(kTileThreads), 0, current_stream(dst.device()), to, from,
           tiles);
  });
  LATHE_CUDA_CHECK(cudaGetLastError());
  return true;
}

bool transpose(const Tensor& dst, const Tensor& src) {
  switch (size_of(dst.dtype())) {
    case 1: return transpose<uint8_t>(dst, src);
    case 2: return transpose<uint16_t>(dst, src);
    case 4: return transpose<uint32_t>(dst, src);
    default: return transpose<uint64_t>(dst, src);
  }
}

}  // namespace

void copy_elements(const Tensor& dst, const Tensor& src) {
  if (dst.numel() == 0) return;
  if (dst.dtype() == src.dtype() && transpose(dst, src)) return;
  visit_all(dst.dtype(), [&](auto to) {
    using To = typename decltype(to)::type;
    visit_all(src.dtype(), [&](auto from) {
      using From = typename decltype(from)::type;
      pointwise<To>(dst, Convert<To>{}, Input<From>{src});
    });
  });
}

void fill_elements(const Tensor& dst, Scalar value) {
  visit_all(dst.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    pointwise<T>(dst, Fill<T>{element_of<T>(value)});
  });
}

}  // namespace lathe::cuda
