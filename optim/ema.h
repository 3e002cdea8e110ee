// Exponential moving averages of a model's weights, to evaluate and save in place of the last
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
  // true: also averages floating buffers (running statistics); false: the averages are used with
  // the model's own buffers.
  bool average_buffers = false;
};

/// The averages a of a module's floating parameters p. An average starts as p; update() sets a ←
/// decay · a + (1 - decay) · p, on a GPU in one launch per dtype. Averages of half parameters are
/// f32, so they can move by less than a half type can represent. Neither copied nor moved; the
/// module must outlive it.
/// ref: Polyak and Juditsky 1992; the warm-up is TensorFlow's.
class LATHE_API EMA {
 public:
  /// throws: ValueError unless decay is in [0,1].
  explicit EMA(nn::Module& module, const EMAOptions& options = {});
  EMA(const EMA&) = delete;
  EMA& operator=(const EMA&) = delete;

  /// One update from the module's present weights. Where StepOptions::found_inf is not 0, nothing
  /// changes and nothing is counted; the host does not wait for the flag.
  /// throws: StateError while applied, or if a weight's shape or device no longer fits its average.
  void update(const StepOptions& options = {});

  /// Keeps the count of updates in the GPU's memory from now on, so that update() can be recorded
  /// into a graph. Without a GPU it changes nothing.
  void set_capturable() { capturable_ = true; }

  /// While this scope lasts, the module has the averages, in its own dtypes; then it has its own
  /// weights again, bit for bit. Training inside the scope is an error: update() throws. Where
  /// dtypes agree, tensors are exchanged and not copied.
  /// throws: StateError if the averages are applied already, or for a weight that is a view or the
  /// result of an op; then nothing was exchanged.
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

  /// The module's state_dict() with the averages in place of the weights and with the module's own
  /// types: to be saved and loaded like any weights. An entry shares memory with its average if
  /// their types agree; clone() it to keep it.
  StateDict module_state() const;

  /// Updates so far. Waits for the device if it could have skipped updates.
  int64_t num_updates() const;

  /// num_updates, and average.<name> for every average. Waits as num_updates() does.
  StateDict state_dict() const;
  /// Takes over such a state; copies the averages. All or nothing.
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
  int64_t updates_ = 0;  // not used once count_ is defined
  Tensor count_;         // i64 on the GPU, from the first update that it may skip or repeat
  bool applied_ = false;
  bool capturable_ = false;
};

}  // namespace lathe::optim
