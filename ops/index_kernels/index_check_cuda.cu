// The data-dependent checks of ops/index.h and ops/losses/class_targets.h on the device. A bad
// value is noted in the device's fault record, and the next synchronisation throws it. Contracts:
// ops/index.h and ops/losses/class_targets.h.
#include "lathe/core/gpu/dependent_launch.cuh"
#include "lathe/core/gpu/raise_fault.cuh"
#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/ops/index.h"
#include "lathe/ops/losses/class_targets.h"

namespace lathe::cuda {

namespace {

/// The allowed values: [0, limit), and `exempt` if there is such a number.
struct Range {
  int64_t limit;
  int64_t exempt;
  bool has_exempt;

  __device__ bool holds(int64_t value) const {
    return (value >= 0 && value < limit) || (has_exempt && value == exempt);
  }
};

// One thread per value in a grid-stride loop; 8 bytes per value are read. There are few targets and
// indices beside what they select, so the launch, about 2 us, dominates the cost.
template <class Index>
__global__ void range_check_kernel(DeviceFault* fault, const char* op, const int64_t* values,
                                   StridedIndex<1, Index> index, Range range, Index n) {
  after_previous_kernel();
  const Index step = Index(gridDim.x) * blockDim.x;
  for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64_t value = values[index(i)[0]];
    if (!range.holds(value)) raise_fault(fault, op, static_cast<int64_t>(i), value, range.limit);
  }
}

template <class Index>
void check(const char* op, const Tensor& values, const LoopNest& nest, Range range) {
  const auto [grid, block] = launch_1d(values.numel());
  launch_dependent(range_check_kernel<Index>, grid, block, 0, current_stream(values.device()),
                   device_fault(values.device()), op, values.data<int64_t>(),
                   StridedIndex<1, Index>(nest), range, static_cast<Index>(values.numel()));
  LATHE_CUDA_CHECK(cudaGetLastError());
}

void check(const char* op, const Tensor& values, Range range) {
  if (values.numel() == 0) return;
  const StridedOperand operand{nullptr, 1, values.strides()};
  const LoopNest nest = make_nest(values.shape(), &operand, 1, LoopOrder::kRowMajor);
  fits_32_bits(nest) ? check<uint32_t>(op, values, nest, range)
                     : check<uint64_t>(op, values, nest, range);
}

}  // namespace

void check_index(const char* op, const Tensor& index, int64_t size) {
  check(op, index, {size, 0, size < 0});
}

void check_class_range(const char* op, const ClassTargets& targets) {
  check(op, targets.index, {targets.classes, targets.ignore_index, true});
}

}  // namespace lathe::cuda
