// The launches of a step on a GPU: one table from ops to the kernels and library calls of the CUDA
// backend. It knows the kernels of the ops in our models by name; for any other op it supposes one
// launch that reads the inputs and writes the results once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/dtype.h"
#include "lathe/train/plan/step_recording.h"

namespace lathe::plan {

enum class LaunchKind : uint8_t {
  kConvolution,
  kMatmul,
  kBatchNormForward,
  kBatchNormBackward,
  kElementwise,
  kPooling,
  kReduction,
  kLoss,
  kOptimizer,
};
inline constexpr int kLaunchKinds = 9;

/// "convolutions", "batch norm, forward", …
LATHE_API std::string_view name_of(LaunchKind kind);

struct Launch {
  int number = 0;      // of its op in the step: launches of one op have the same
  std::string op;      // "conv2d", "batch_norm_relu backward"
  std::string layer;   // "layer1.0.conv1"
  std::string kernel;  // "stats_kernel"; of a library "cuDNN", "cuBLASLt"
  LaunchKind kind = LaunchKind::kElementwise;
  bool library = false;  // not one of our own kernels
  DType dtype = DType::kF32;
  bool tf32 = false;  // of a library with f32: products may be rounded
  // A convolution that cuDNN can fuse with a norm and relu before it; an input gradient that can go
  // on through the end of the block before.
  bool fuses = false;
  double read_bytes = 0, written_bytes = 0, flops = 0;
  // Of the bytes read those that the launch before has read or written too: what of them the L2
  // cache still holds need not come from memory.
  double again_bytes = 0;
  // Of y, a block's end in halves, in the launch that writes it and in the one that reads it to see
  // what its relu passed.
  double masked_bytes = 0;
  // It starts as our own kernel before it ends (core/gpu/dependent_launch.cuh).
  bool dependent = false;
  // The bytes of copies that only fill up channels for cuDNN.
  double extra_bytes = 0;

  double bytes() const { return read_bytes + written_bytes; }
};

struct LaunchOptions {
  bool tf32 = true;  // core/math_mode.h, of the process on the GPU
};

/// The launches of the recording's last step on a GPU, in order.
LATHE_API std::vector<Launch> launches_of(const StepRecording& recording,
                                          const LaunchOptions& options = {});

}  // namespace lathe::plan
