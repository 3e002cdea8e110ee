// Exponential moving average of a model's weights, to evaluate and to save instead of the last
// ones.
//
//   EMA ema(model, {.decay = 0.999});
//   … optimizer.step(); ema.update();                   // or, with a scaler, after scaler.step():
//   ema.update({.found_inf = scaler.found_inf(optimizer)});
//   { EMA::Applied averaged(ema); evaluate(model); }    // the model's own weights come back
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
  bool average_buffers = false;  // also floating buffers (running statistics); else the model's own
                                 // are used with the averages
};

/// The averages a of a module's floating parameters p: a starts as p; update() makes a ← decay · a
/// + (1 - decay) · p, on a GPU in one launch for each dtype. Averages of half parameters are f32,
/// and so move by less than a half can hold. Neither copied nor moved; the module must outlive it.
/// ref: Polyak and Juditsky 1992; the warm-up is TensorFlow's.
class LATHE_API EMA {
 public:
  /// throws: ValueError unless decay is in [0,1].
  explicit EMA(nn::Module& module, const EMAOptions& options = {});
  EMA(const EMA&) = delete;
  EMA& operator=(const EMA&) = delete;

  /// One update from the module's present weights. Where StepOptions::found_inf is not 0 nothing
  /// changes and nothing is counted; the host does not wait for it.
  /// throws: StateError while applied, or for a weight whose shape or device no longer fits its
  /// average.
  void update(const StepOptions& options = {});

  /// The module has the averages (in its own dtypes) until this scope ends; then its own weights
  /// again, bit for bit. Training in between is an error that update() tells of. Tensors are
  /// exchanged, not copied, where dtypes agree.
  /// throws: StateError if they are applied already, or for a weight that is a view or the result
  /// of an op; nothing was exchanged then.
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

  /// The module's state_dict() with the averages in it, in the module's
  /// dtypes: weights to be saved and loaded as any others. Shares memory with the averages where
  /// dtypes agree, until clone().
  StateDict module_state() const;

  /// Updates so far. Waits for the device if updates could be skipped there.
  int64_t num_updates() const;

  /// num_updates and average.<name> for every average. Waits as num_updates() does.
  StateDict state_dict() const;
  /// Takes over such a state; averages are copied. All or nothing.
  /// throws: ValueError listing what is missing, unexpected or of another shape; StateError while
  /// applied.
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
  int64_t updates_ = 0;  // unless count_ is defined
  Tensor count_;         // i64 on the GPU, from the first update on that may be skipped there
  bool applied_ = false;
};

}  // namespace lathe::optim
