// Unscaling and the scale's update on the GPU: all gradients in one launch; the host waits for no
// value. The arithmetic is loss_scale_math.h, as on the CPU.
#include "lathe/core/cuda_backend.h"
#include "lathe/core/gpu/dependent_launch.cuh"
#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/kernels/grad_tables.cuh"

namespace lathe::optim::cuda {

namespace {

// x = x / scale for many gradients. One block per chunk of 4096 elements of one of them, up to 192
// gradients in a launch. *found_inf = 1 if a scaled element is inf or NaN; only a thread that has
// met one touches the flag. Memory bound: 2 sizeof(T) bytes per element in 16-byte words, meant to
// reach 90 % of the copy bandwidth: every byte is touched once.
template <class T>
__global__ void __launch_bounds__(kChunkThreads)
    unscale_kernel(ArrayTable<1> table, const float* scale, float* found_inf) {
  using C = ComputeType<T>;
  const auto unscale = Unscale<C>::by(*scale);
  const Chunk chunk = chunk_of_block(table);
  bool finite = true;
  for_packets(static_cast<T*>(table.item[chunk.item].array[0]), chunk, [&](auto* at) {
    auto packet = *at;
    for (T& x : packet.v) {
      const C scaled = C(x);
      finite = finite && is_finite(scaled);
      x = T(unscale(scaled));
    }
    *at = packet;
  });
  constexpr unsigned kOne = 0x3f800000u;  // 1.0f
  if (!finite) atomicCAS(reinterpret_cast<unsigned*>(found_inf), 0u, kOne);
}

// Sets the next scale and, if the host asked for one, writes a report into its memory. One thread.
__global__ void update_loss_scale_kernel(float* scale, int64_t* growth_tracker,
                                         LossScaleCounts* counts, LossScaleReport* report,
                                         const float* found_inf, LossScaleRule rule) {
  after_previous_kernel();
  rule.update(*found_inf != 0, *scale, *growth_tracker, *counts);
  if (report == nullptr) return;
  report->scale = *scale;
  report->counts = *counts;
}

__global__ void report_loss_scale_kernel(const float* scale, const LossScaleCounts* counts,
                                         LossScaleReport* report) {
  report->scale = *scale;
  report->counts = *counts;
}

}  // namespace

void report_loss_scale(const Tensor& scale, const Tensor& counts, const Tensor& report) {
  const Stream stream = current_stream(scale.device());
  void* const to = report.raw_data();
  launch(report_loss_scale_kernel, dim3(1), dim3(1), 0, stream, scale.data<float>(),
         static_cast<const LossScaleCounts*>(counts.raw_data()), static_cast<LossScaleReport*>(to));
  LATHE_CUDA_CHECK(cudaGetLastError());
  ::lathe::cuda::record_pinned(to, stream);
}

void unscale_grads(const Tensors& grads, const Tensor& scale, const Tensor& found_inf) {
  change_dense("GradScaler", grads, [&](auto tag, const ArrayTable<1>& table) {
    using T = typename decltype(tag)::type;
    launch(unscale_kernel<T>, dim3(table.blocks), dim3(kChunkThreads), 0,
           current_stream(scale.device()), table, scale.data<float>(), found_inf.data<float>());
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

void update_loss_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& counts,
                       const Tensor& report, const Tensor& found_inf, const LossScaleRule& rule) {
  const Stream stream = current_stream(scale.device());
  void* const to = report.defined() ? report.raw_data() : nullptr;
  launch_dependent(update_loss_scale_kernel, dim3(1), dim3(1), 0, stream, scale.data<float>(),
                   growth_tracker.data<int64_t>(), static_cast<LossScaleCounts*>(counts.raw_data()),
                   static_cast<LossScaleReport*>(to), found_inf.data<float>(), rule);
  LATHE_CUDA_CHECK(cudaGetLastError());
  if (report.defined()) ::lathe::cuda::record_pinned(to, stream);
}

}  // namespace lathe::optim::cuda
