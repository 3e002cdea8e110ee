// Exponential moving averages of a model's weights, to be evaluated and saved instead of the last
// weights.
//
//   EMA ema(model, {.decay = 0.999});
//   … optimizer.step(); ema.update();
//   … scaler.step(optimizer); ema.update({.found_inf = scaler.found_inf(optimizer)});  // f16
//   { EMA::Applied averaged(ema); evaluate(model); }  // the model's own weights come back
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/state_dict.h"
#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"
#include "lathe/optim/optimizer.h"

namespace lathe::optim {

struct EMAOptions {
  double decay = 0.999;
  bool warm_up = false;  // in update n = 1, 2, … the decay is min(decay, (1 + n) / (10 + n))
  // true: stochastic weight averaging: the plain mean of the weights at all updates, whatever decay
  // and warm_up say. Usually updated once per epoch, late in a training; see update_bn.h.
  bool swa = false;
  // true: also averages floating buffers (running statistics); false: the averages are used with
  // the model's own buffers.
  bool average_buffers = false;
};

/// Keeps an average a of each floating parameter p of a module. An average starts as p. update()
/// sets a ← decay · a + (1 - decay) · p, on a GPU with one launch per dtype. Averages of half
/// parameters are f32, since their changes can be too small for a half type. An EMA cannot be
/// copied or moved. The module must outlive it.
/// ref: Polyak and Juditsky 1992; swa: Izmailov et al. 2018 (arXiv:1803.05407); the warm-up is
/// TensorFlow's.
class LATHE_API EMA {
 public:
  /// throws: ValueError unless decay is in [0,1].
  explicit EMA(nn::Module& module, const EMAOptions& options = {});
  EMA(const EMA&) = delete;
  EMA& operator=(const EMA&) = delete;

  /// Updates all averages from the module's present weights. If StepOptions::found_inf is not 0,
  /// nothing changes and the update is not counted. If found_inf is on a GPU, the host does not
  /// wait for it.
  /// throws: one of these; nothing has changed then:
  ///   - StateError while an Applied is alive, if a weight's shape or device no longer fits its
  ///     average, or in a capture before set_capturable()
  ///   - DeviceError for a found_inf on a GPU where the weights are not
  void update(const StepOptions& options = {});

  /// Keeps the count of updates in the GPU's memory from now on, so that update() can be captured
  /// into a CUDA graph: each launch counts. After load_state_dict(), do not launch CUDA graphs
  /// captured before: they refer to released memory. Has no effect on the CPU.
  /// throws: StateError during a capture.
  void set_capturable();

  /// While an Applied is alive, the module's weights are the averages, in the module's dtypes.
  /// Afterwards the module has its own weights again, bit for bit. Do not train meanwhile: update()
  /// throws. A weight and an average of the same dtype exchange their memory, without a copy.
  /// throws: StateError if another Applied of this EMA is alive, or if a weight is a view or the
  /// result of an op. Nothing has changed then.
  class LATHE_API Applied {
   public:
    explicit Applied(EMA& ema);
    ~Applied();
    Applied(const Applied&) = delete;
    Applied& operator=(const Applied&) = delete;

   private:
    void restore() const;

    EMA& ema_;
    Tensors own_;
  };

  /// Writes the averages into the module's weights, as at the end of a training.
  /// throws: StateError while an Applied is alive, or if a weight no longer has the shape of its
  /// average. Nothing has changed then.
  void copy_to_module() const;

  /// The module's state_dict() with the averages in place of the weights, in the module's dtypes.
  /// The result can be saved and loaded like any weights. An entry shares memory with its average
  /// if their dtypes agree; clone() it to keep its values.
  StateDict module_state() const;

  /// The number of updates so far. Waits for the device if the count is in the device's memory:
  /// after set_capturable(), or after an update() with a found_inf on a GPU.
  int64_t num_updates() const;

  /// Entries: num_updates, and average.<name> for every average. Waits for the device if
  /// num_updates() does.
  StateDict state_dict() const;
  /// Copies the averages and the count from the state_dict() of an EMA.
  /// throws: ValueError listing every entry that is missing, unexpected or of another shape;
  /// StateError while an Applied is alive. Nothing has changed then.
  void load_state_dict(const StateDict& state);

 private:
  struct Entry {
    std::string name;
    Tensor source;   // the module's
    Tensor average;  // f32, or f64 for f64
  };

  const EMAOptions options_;
  nn::Module& module_;
  std::vector<Entry> entries_;
  int64_t updates_ = 0;  // not used once count_ is defined
  Tensor count_;         // i64 on the GPU, from set_capturable() or a found_inf on it
  bool applied_ = false;
};

}  // namespace lathe::optim
