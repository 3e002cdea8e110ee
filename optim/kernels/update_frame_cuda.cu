// count_step(): raises the counts of updates that live on the device. Contract: update_frame.cuh.
#include "lathe/optim/kernels/update_frame.cuh"

namespace lathe::optim::cuda {

namespace {

// One more update of each parameter, one thread each, unless the step is skipped. A few hundred
// bytes: bound by the launch.
__global__ void __launch_bounds__(CountTable::kCapacity)
    count_step_kernel(CountTable table, Gate gate) {
  after_previous_kernel();
  const int i = static_cast<int>(threadIdx.x);
  if (i < table.size && gate.open()) *table.count[i] += 1;
}

}  // namespace

void count_step(std::span<const UpdateItem> items) {
  const UpdateItem& front = items.front();
  CountTable table;
  const auto flush = [&] {
    if (table.size == 0) return;
    launch_dependent(count_step_kernel, dim3(1), dim3(CountTable::kCapacity), 0,
                     current_stream(front.device), table, gate_of(front));
    LATHE_CUDA_CHECK(cudaGetLastError());
    table.size = 0;
  };
  for (const UpdateItem& item : items) {
    if (item.count == nullptr || item.counted) continue;
    if (table.size == CountTable::kCapacity) flush();
    table.count[table.size++] = item.count;
  }
  flush();
}

}  // namespace lathe::optim::cuda
