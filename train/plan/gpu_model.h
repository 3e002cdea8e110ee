// How long a launch takes on a GPU, by the roofline: the longer of its bytes at the memory's rate
// and its operations at the arithmetic's rate, and a floor. What of the data sheet's rates is
// reached was fitted to the first run on an H100 (docs/gpus.md); for other GPUs, and for
// other models than ResNet-18, it is a guess.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/machine/gpu_description.h"
#include "lathe/train/plan/launch_list.h"

namespace lathe::plan {

/// One set of assumptions.
struct Efficiency {
  double share;          // of the rates below that kernels reach
  double floor_seconds;  // of a kernel on the GPU, beside its work
  double gap_seconds;    // between two kernels
  double cached;         // part of the L2 cache that still holds what the launch before touched
};
/// The pessimistic set (kernel by kernel) and the optimistic one (one CUDA graph).
inline constexpr Efficiency kSlow{0.9, 3e-6, 1.76e-6, 0};
inline constexpr Efficiency kFast{1.0, 2e-6, 0.51e-6, 0.5};

/// What a dependent launch hides of the gap and the floor. A guess: nothing has measured it.
inline constexpr double kHiddenSeconds = 1.5e-6;

/// Of the data sheet's rates, what the best kernels reach: a copy of 2.8 TB/s of 3.35, a matrix
/// product of 677 TFLOP/s of 989.
inline constexpr double kCopyShare = 0.836, kProductShare = 0.684;

/// What of a copy's or a matrix product's rate the launches of one kind reach.
LATHE_API double share_of(LaunchKind kind);

/// All of the GPU's peaks must be known, that is, above 0.
LATHE_API double seconds_of(const Launch& launch, const GpuDescription& gpu,
                            const Efficiency& efficiency);
LATHE_API double seconds_of(const std::vector<Launch>& launches, const GpuDescription& gpu,
                            const Efficiency& efficiency);

/// The assumptions in a few lines, for people. `rates`: where those of the GPU come from.
LATHE_API std::vector<std::string> assumptions(const GpuDescription& gpu, std::string_view rates);

}  // namespace lathe::plan
