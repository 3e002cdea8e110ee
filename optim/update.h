// One update of many tensors at once: what the optimisers pass to a backend. The loops are in
// kernels/: update_cpu.cpp, update_layerwise_cpu.cpp, update_cuda.cu and update_layerwise_cuda.cu;
// the formulas in update_math.h, element_rules.h and layerwise_math.h.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <tuple>

#include "lathe/core/ceil_div.h"
#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/dtype.h"

namespace lathe {
class Tensor;
}

namespace lathe::optim {

struct SGDOptions;
struct AdamOptions;
struct RMSpropOptions;
struct LARSOptions;
struct LAMBOptions;
struct NovoGradOptions;
struct AdafactorNumbers;
struct LookaheadOptions;
struct MuonOptions;
struct AdagradOptions;
struct AdadeltaOptions;
struct AdamaxOptions;
struct NAdamOptions;
struct RAdamOptions;
struct LionOptions;

inline constexpr size_t kMaxBuffers = 3;

/// One parameter in one step: dense arrays of n elements, all in the same memory order. Buffers are
/// f32, or f64 for f64 parameters.
struct UpdateItem {
  int64_t n;
  DType dtype;  // of param, and of grad unless half_grad says otherwise
  Device device;
  int64_t step;  // 1 in the first update of this parameter; its buffers hold zeros then
  void* param;
  const void* grad;
  std::array<void*, kMaxBuffers> buffers;  // null where not needed
  void* master = nullptr;  // f32 values of a half parameter, which is then their rounded copy
  // Of an f32 parameter on a GPU under Autocast (autograd/half_copy.h); kF32: none.
  DType half_grad = kF32;  // `grad` has this half type
  DType half_copy = kF32;  // the type of `copy`
  void* copy = nullptr;    // receives the rounded parameter
  // The parameter as a matrix of so many rows, of which the memory holds one after another (or one
  // column after another); 0: it is none.
  int64_t rows = 0;
  bool by_columns = false;
  const Tensor* tensor = nullptr;        // the parameter, with its shape and strides
  double* scratch = nullptr;             // norm_scratch(n) numbers, for rules that measure norms
  const double* grad_factors = nullptr;  // two factors for the gradients on their way in

  // What only the GPU knows. Null on the CPU, and as long as no update could have been skipped.
  const float* found_inf = nullptr;  // where it is not 0 the update changes nothing
  int64_t* count = nullptr;          // updates so far, in place of `step`; this update raises it
  bool counted = false;              // something else raises `count` for this item
  const double* lr = nullptr;        // the rate, in place of the numbers' one; needs a count

  /// Items of one kind can be updated by one launch.
  auto kind() const {
    return std::tuple(n == 0, dtype, count == nullptr ? step : 0, count == nullptr,
                      master == nullptr, half_grad, half_copy);
  }
};

/// Norms are summed in chunks of this many elements, on every device.
inline constexpr int64_t kChunk = 4096;

constexpr int64_t chunks_of(int64_t n) { return ceil_div(n, kChunk); }

/// Doubles of scratch for a parameter of n elements: the rate of its step, then two sums per chunk.
constexpr int64_t norm_scratch(int64_t n) { return 1 + 2 * chunks_of(n); }

struct EmaNumbers {
  double decay;
  bool warm_up;
  bool swa = false;
};

// The buffers of each update:
//   SGD       momentum
//   Adam      first moment, second moment, its maximum
//   RMSprop   mean square, momentum, mean
//   LARS      momentum
//   LAMB      first moment, second moment
//   NovoGrad  first moment, second moment (one number)
//   Adafactor second moment; those of rows and columns (Adafactor::update() writes these two)
//   EMA       average, of `grad`; there is no parameter
//   Muon      momentum, direction
//   Lookahead slow weights; there is no gradient
//   rules     those of kernels/element_rules.h
// decoupled: AdamW.
namespace cpu {
void sgd_update(std::span<const UpdateItem> items, const SGDOptions& options);
void adam_update(std::span<const UpdateItem> items, const AdamOptions& options, bool decoupled);
void rmsprop_update(std::span<const UpdateItem> items, const RMSpropOptions& options);
void lars_update(std::span<const UpdateItem> items, const LARSOptions& options);
void lamb_update(std::span<const UpdateItem> items, const LAMBOptions& options);
void novograd_update(std::span<const UpdateItem> items, const NovoGradOptions& options);
void adafactor_update(std::span<const UpdateItem> items, const AdafactorNumbers& numbers);
void rule_update(std::span<const UpdateItem> items, const AdagradOptions& options);
void rule_update(std::span<const UpdateItem> items, const AdadeltaOptions& options);
void rule_update(std::span<const UpdateItem> items, const AdamaxOptions& options);
void rule_update(std::span<const UpdateItem> items, const NAdamOptions& options);
void rule_update(std::span<const UpdateItem> items, const RAdamOptions& options);
void rule_update(std::span<const UpdateItem> items, const LionOptions& options);
void rule_update(std::span<const UpdateItem> items, const MuonOptions& options);
void muon_directions(std::span<const UpdateItem> items, const MuonOptions& options);
void rule_update(std::span<const UpdateItem> items, const LookaheadOptions& options);
void ema_update(std::span<const UpdateItem> items, const EmaNumbers& numbers);
}  // namespace cpu
namespace cuda {
void sgd_update(std::span<const UpdateItem> items, const SGDOptions& options);
void adam_update(std::span<const UpdateItem> items, const AdamOptions& options, bool decoupled);
void rmsprop_update(std::span<const UpdateItem> items, const RMSpropOptions& options);
void lars_update(std::span<const UpdateItem> items, const LARSOptions& options);
void lamb_update(std::span<const UpdateItem> items, const LAMBOptions& options);
void novograd_update(std::span<const UpdateItem> items, const NovoGradOptions& options);
void adafactor_update(std::span<const UpdateItem> items, const AdafactorNumbers& numbers);
void rule_update(std::span<const UpdateItem> items, const AdagradOptions& options);
void rule_update(std::span<const UpdateItem> items, const AdadeltaOptions& options);
void rule_update(std::span<const UpdateItem> items, const AdamaxOptions& options);
void rule_update(std::span<const UpdateItem> items, const NAdamOptions& options);
void rule_update(std::span<const UpdateItem> items, const RAdamOptions& options);
void rule_update(std::span<const UpdateItem> items, const LionOptions& options);
void rule_update(std::span<const UpdateItem> items, const MuonOptions& options);
void muon_directions(std::span<const UpdateItem> items, const MuonOptions& options);
void rule_update(std::span<const UpdateItem> items, const LookaheadOptions& options);
void ema_update(std::span<const UpdateItem> items, const EmaNumbers& numbers);
}  // namespace cuda

}  // namespace lathe::optim
