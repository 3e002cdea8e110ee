// CUDA kernels of ops/index.h that read at given positions. The sums are in index_sum_cuda.cu,
// check_index is in index_check_cuda.cu. An index out of range sets the fault record, and its
// element becomes 0.
#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/packet.cuh"
#include "lathe/core/gpu/raise_fault.cuh"
#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/core/visit.h"
#include "lathe/ops/index.h"

namespace lathe::cuda {

namespace {

/// x [outer, n, inner] and y [outer, count, inner], in units.
template <class Index>
struct Slices {
  Divider<Index> inner, count;
  Index total;  // units of y
  int64_t n;
};

// y[o,k,:] = x[o,index[k],:]. One thread per unit of y: the largest word (1 to 16 bytes) of which
// slices and addresses are multiples. Neighbouring threads move neighbouring units of one slice.
// Memory bound: 2 sizeof(Unit) bytes per unit, meant to reach 85 % of the copy bandwidth for slices
// of 64 bytes or more; shorter ones read sectors of 32 bytes each.
template <class Unit, class Index>
__global__ void index_select_kernel(Unit* __restrict__ y, const Unit* __restrict__ x,
                                    const int64_t* __restrict__ index, Slices<Index> slices,
                                    const char* op, DeviceFault* fault) {
  const Index step = gridDim.x * blockDim.x, inner = slices.inner.divisor();
  for (Index i = blockIdx.x * blockDim.x + threadIdx.x; i < slices.total; i += step) {
    const Index row = slices.inner.quotient(i), outer = slices.count.quotient(row);
    const Index k = row - outer * slices.count.divisor();
    const int64_t at = index[k];
    if (at < 0 || at >= slices.n) {
      raise_fault(fault, op, static_cast<int64_t>(k), at, slices.n);
      y[i] = Unit{};
      continue;
    }
    y[i] = x[(static_cast<int64_t>(outer) * slices.n + at) * inner + (i - row * inner)];
  }
}

// y = x[…,index,…], any strides. One thread per element of y. The elements of x lie anywhere, so
// reading sectors of 32 bytes for each bounds it.
template <class Unit, class Index>
__global__ void gather_kernel(Unit* __restrict__ y, const Unit* __restrict__ x,
                              const int64_t* __restrict__ index, StridedIndex<3, Index> places,
                              Index n, int64_t size, int64_t step_x, const char* op,
                              DeviceFault* fault) {
  const Index step = gridDim.x * blockDim.x;
  for (Index i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
    const auto at = places(i);  // of y, of the index, of x's line
    const int64_t value = index[at[1]];
    const bool valid = value >= 0 && value < size;
    if (!valid) raise_fault(fault, op, static_cast<int64_t>(i), value, size);
    y[at[0]] = valid ? x[at[2] + value * step_x] : Unit{};
  }
}

/// Calls f(TypeTag<Unit>) for the unsigned type of that many bytes; 16 bytes are two words.
template <class F>
void visit_unit(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(TypeTag<uint8_t>{});
    case 2: return f(TypeTag<uint16_t>{});
    case 4: return f(TypeTag<uint32_t>{});
    case 8: return f(TypeTag<uint64_t>{});
    default: return f(TypeTag<Packet<uint64_t, 2>>{});
  }
}

/// The largest unit that divides `bytes` and both addresses.
int64_t unit_of(int64_t bytes, const void* a, const void* b) {
  int64_t unit = 16;
  const auto bits = reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b);
  while (bytes % unit != 0 || bits % static_cast<uintptr_t>(unit) != 0) unit /= 2;
  return unit;
}

/// Calls f(TypeTag<uint32_t>) if `small`, else f(TypeTag<uint64_t>).
template <class F>
void visit_index(bool small, F&& f) {
  if (small) return f(TypeTag<uint32_t>{});
  f(TypeTag<uint64_t>{});
}

}  // namespace

void index_select(const Tensor& y, const Tensor& x, const Tensor& index) {
  if (y.numel() == 0) return;
  const int64_t slice_bytes = x.dim(2) * static_cast<int64_t>(size_of(x.dtype()));
  const int64_t unit = unit_of(slice_bytes, y.raw_data(), x.raw_data());
  const int64_t inner = slice_bytes / unit, total = y.bytes() / unit;
  const auto [grid, block] = launch_1d(total);
  visit_index(total < (int64_t{1} << 31), [&, g = grid, b = block](auto index_tag) {
    using Index = typename decltype(index_tag)::type;
    const Slices<Index> slices{Divider<Index>(inner), Divider<Index>(index.numel()),
                               static_cast<Index>(total), x.dim(1)};
    visit_unit(unit, [&](auto tag) {
      using Unit = typename decltype(tag)::type;
      launch(index_select_kernel<Unit, Index>, g, b, 0, current_stream(y.device()),
             static_cast<Unit*>(y.raw_data()), static_cast<const Unit*>(x.raw_data()),
             index.data<int64_t>(), slices, "index_select", device_fault(y.device()));
    });
  });
  LATHE_CUDA_CHECK(cudaGetLastError());
}

void gather(const Tensor& y, const Tensor& x, int dim, const Tensor& index) {
  if (y.numel() == 0) return;
  Strides lines = x.strides();  // of x, whose position along dim comes from the index
  lines[dim] = 0;
  const auto bytes = static_cast<int64_t>(size_of(x.dtype()));
  const StridedOperand operands[] = {
      {nullptr, 1, y.strides()}, {nullptr, 1, index.strides()}, {nullptr, 1, lines}};
  const LoopNest nest = make_nest(y.shape(), operands, 3, LoopOrder::kRowMajor);
  const auto [grid, block] = launch_1d(y.numel());
  visit_index(fits_32_bits(nest), [&, g = grid, b = block](auto index_tag) {
    using Index = typename decltype(index_tag)::type;
    visit_unit(bytes, [&](auto tag) {
      using Unit = typename decltype(tag)::type;
      launch(gather_kernel<Unit, Index>, g, b, 0, current_stream(y.device()),
             static_cast<Unit*>(y.raw_data()), static_cast<const Unit*>(x.raw_data()),
             index.data<int64_t>(), StridedIndex<3, Index>(nest), static_cast<Index>(y.numel()),
             x.shape()[dim], x.strides()[dim], "gather", device_fault(y.device()));
    });
  });
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace lathe::cuda
