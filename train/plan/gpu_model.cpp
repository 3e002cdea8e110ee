// The roofline and its assumptions. Contract: gpu_model.h.
#include "lathe/train/plan/gpu_model.h"

#include <algorithm>

#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"

namespace lathe::plan {
namespace {

double flops_rate(const GpuDescription& gpu, const Launch& launch) {
  if (!launch.library) return gpu.peaks.f32_flops;
  if (is_half(launch.dtype)) return gpu.peaks.half_flops;
  return launch.tf32 ? gpu.peaks.tf32_flops : gpu.peaks.f32_flops;
}

}  // namespace

double share_of(LaunchKind kind) {
  switch (kind) {
    case LaunchKind::kConvolution: return 0.66;  // measured over the convolutions of a step
    case LaunchKind::kBatchNormForward: return 0.9;
    case LaunchKind::kPooling: return 0.8;
    default: return 1;
  }
}

double seconds_of(const Launch& launch, const GpuDescription& gpu, const Efficiency& efficiency) {
  const double held =
      std::min(launch.again_bytes, efficiency.cached * static_cast<double>(gpu.l2_bytes));
  const double arithmetic = launch.flops / (flops_rate(gpu, launch) * kProductShare);
  const double memory = (launch.bytes() - held) / (gpu.peaks.bytes * kCopyShare);
  const double work = std::max(arithmetic, memory) / (share_of(launch.kind) * efficiency.share);
  // A library's kernels hide their begin behind their work, which takes two floors at least.
  const double floor = efficiency.floor_seconds;
  const double hidden = launch.dependent ? kHiddenSeconds : 0;
  return efficiency.gap_seconds - hidden +
         (launch.library ? std::max(work, 2 * floor) : work + floor);
}

double seconds_of(const std::vector<Launch>& launches, const GpuDescription& gpu,
                  const Efficiency& efficiency) {
  double sum = 0;
  for (const Launch& launch : launches) sum += seconds_of(launch, gpu, efficiency);
  return sum;
}

std::vector<std::string> assumptions(const GpuDescription& gpu, std::string_view rates) {
  const GpuPeaks& peaks = gpu.peaks;
  const auto set = [](const Efficiency& e) {
    return formatted(
        "{:.0f} % of these rates, {:.1f} us of overhead in each kernel and {:.2f} us between two "
        "kernels",
        100 * e.share, 1e6 * e.floor_seconds, 1e6 * e.gap_seconds);
  };
  return {formatted("{}: {:.0f} TFLOP/s with halves, {:.0f} with TF32, {:.0f} with f32, memory "
                    "{:.0f} GB/s ({})",
                    printable(gpu.name), peaks.half_flops / 1e12, peaks.tf32_flops / 1e12,
                    peaks.f32_flops / 1e12, peaks.bytes / 1e9, rates),
          formatted("fitted to one run of ResNet-18 on an H100 (docs/gpus.md): a copy reaches "
                    "{:.1f} % of the memory's rate, a matrix product {:.1f} % of the arithmetic's; "
                    "convolutions {:.0f} % of that, batch norm's forward pass {:.0f} %, pooling "
                    "{:.0f} %, all else 100 %",
                    100 * kCopyShare, 100 * kProductShare, 100 * share_of(LaunchKind::kConvolution),
                    100 * share_of(LaunchKind::kBatchNormForward),
                    100 * share_of(LaunchKind::kPooling)),
          "slow, kernel by kernel: " + set(kSlow), "fast, one CUDA graph: " + set(kFast)};
}

}  // namespace lathe::plan
