// What an operation graph of the emulated cuDNN means, and its execution by loops on the host.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "lathe/tests/emulation/cudnn/cudnn.h"

namespace lathe::emulation {

struct CudnnTensor {
  int64_t uid = 0;
  cudnnDataType_t dtype = CUDNN_DATA_FLOAT;
  std::array<int64_t, 4> dims{}, strides{};
  int64_t alignment = 0;
  bool is_virtual = false;

  int64_t numel() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

/// y = x * w, dx = y * w, dw = x * y, or y = x + w.
struct CudnnStep {
  enum Kind { kForward, kBackwardData, kBackwardFilter, kAdd } kind = kForward;
  CudnnTensor x, w, y;
  std::array<int64_t, 2> stride{}, pad{}, dilation{};

  const CudnnTensor& output() const {
    return kind == kBackwardData ? x : kind == kBackwardFilter ? w : y;
  }
  bool is_convolution() const { return kind <= kBackwardFilter; }
};

/// What an engine does to the factors of its products before it multiplies them.
enum class CudnnRounding { kNone, kTf32, kBfloat16 };

struct CudnnProgram {
  std::vector<CudnnStep> steps;
  CudnnRounding rounding = CudnnRounding::kNone;

  /// Those that have memory.
  std::vector<CudnnTensor> tensors() const;
  /// Computes in f32, reading and writing where `memory` says that a uid's tensor is.
  void run(const std::map<int64_t, void*>& memory) const;
};

/// The steps fit together: the sizes of each, and its reason if not ("" if they do).
const char* cudnn_shape_problem(const CudnnStep& step);

}  // namespace lathe::emulation
