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

/// A step of a graph. Convolutions: y = x * w, dx = y * w, dw = x * y. Pointwise, with w broadcast:
/// y = x + w, x - w, x * w; y = max(x, 0); y = w where not x < 0. The others are described at their
/// names.
struct CudnnStep {
  enum Kind {
    kForward,
    kBackwardData,
    kBackwardFilter,
    kAdd,
    kSubtract,
    kMultiply,
    kRelu,
    kReluBackward,
    kStatistics,    // written: the sums of x and of x * x over each channel
    kNormBackward,  // w is dy; read: mean, invstd, scale; written: dscale, dbias, dy's factor, x's
                    // factor, constant
  } kind = kForward;
  CudnnTensor x, w, y;
  std::array<int64_t, 2> stride{}, pad{}, dilation{};
  std::vector<CudnnTensor> read = {}, written = {};  // beside x, w and y

  bool is_convolution() const { return kind <= kBackwardFilter; }
  /// In the order in which the names above say what they are.
  std::vector<CudnnTensor> inputs() const;
  std::vector<CudnnTensor> outputs() const;
};

/// What an engine does to the factors of its products before it multiplies them.
enum class CudnnRounding { kNone, kTf32, kBfloat16, kHalf };

struct CudnnProgram {
  std::vector<CudnnStep> steps;
  CudnnRounding rounding = CudnnRounding::kNone;

  /// The convolution's step.
  const CudnnStep& convolution() const;
  /// Those that have memory.
  std::vector<CudnnTensor> tensors() const;
  /// Computes in f32, reading and writing where `memory` says that a uid's tensor is.
  void run(const std::map<int64_t, void*>& memory) const;
};

/// The steps fit together: the sizes of each, and its reason if not ("" if they do).
const char* cudnn_shape_problem(const CudnnStep& step);

}  // namespace lathe::emulation
