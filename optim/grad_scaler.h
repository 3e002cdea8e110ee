// GradScaler: loss scaling for training in f16. Without it, gradients below 2^-24 would become 0 in
// f16.
//
//   scale(loss).backward() → [unscale_(optimizer) → clip …] → step(optimizer) → update()
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lathe/core/state_dict.h"
#include "lathe/core/stream.h"
#include "lathe/core/tensor.h"
#include "lathe/optim/loss_scale_math.h"
#include "lathe/optim/optimizer.h"

namespace lathe::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;  // steps without overflow before the scale grows
  double min_scale = 0x1p-14;      // it is an error if the scale would fall below this
  bool dynamic = true;  // false: the scale stays init_scale; steps that overflow are still skipped
  bool enabled = true;  // false: the scaler changes nothing
};

struct ScaledStepOptions {
  // Above 0: clips the optimiser's parameters to this norm after unscaling, as clip_grad_norm_.
  double max_grad_norm = 0;
  // true: the update itself unscales, looks for overflow and clips. On a GPU this takes three
  // launches for a group instead of seven. The gradients in memory stay scaled.
  bool fused = false;
};

/// Thrown if the loss scale would fall below GradScalerOptions::min_scale: the gradients are inf or
/// NaN at any scale.
class LATHE_API LossScaleError : public StateError {
  using StateError::StateError;
};

/// Multiplies the loss, and so all gradients, by a scale. Divides the gradients by the scale before
/// the optimiser sees them. A step whose gradients overflowed is skipped and lowers the scale;
/// growth_interval steps without overflow raise it. The scale, the overflow flags and the growth
/// count are in memory of the loss's device, and training does not wait for them. Several
/// optimisers may share a scaler. A scaler cannot be copied or moved. Keep an optimiser alive after
/// step(optimiser) until the next update() has returned.
/// ref: Micikevicius et al. 2018 (arXiv:1710.03740); defaults and order of calls as in PyTorch.
class LATHE_API GradScaler {
 public:
  /// throws: ValueError unless growth_factor > 1, 0 < backoff_factor < 1, growth_interval >= 1, 0 <
  /// min_scale <= init_scale, and all of these are finite in f32.
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;

  /// Returns loss · scale, differentiable. The scaler works on the device of the first loss.
  /// throws: DTypeError unless the loss is floating; DeviceError if it is on another device than
  /// the first loss; StateError if a capture contains the first call.
  Tensor scale(const Tensor& loss);

  /// Divides the gradients of the optimiser's parameters by the scale, in place, and records
  /// whether one was inf or NaN. Call it after backward() and before clipping or anything else that
  /// looks at gradients.
  /// throws: StateError before the first scale(), if called twice before update(), or between
  /// step() and update(); DTypeError for f16 or bf16 gradients; DeviceError for a gradient on
  /// another device than the loss. Nothing has changed then.
  void unscale_(Optimizer& optimizer);

  /// Calls unscale_() unless you called it, then optimizer.step(). If a gradient was inf or NaN,
  /// the step is skipped: no parameter, no buffer and no step count changes. In f32 and f64,
  /// options.fused does not change the bits of the result (on a GPU: if each gradient has its
  /// parameter's memory order).
  /// → with max_grad_norm: the total norm before clipping; otherwise undefined
  /// throws: StateError if called twice before update(), or if no parameter has a gradient;
  /// ValueError for a negative or NaN max_grad_norm; what unscale_() and Optimizer::step() throw.
  Tensor step(Optimizer& optimizer, const ScaledStepOptions& options = {});

  /// Returns a 0-d f32 tensor that is not 0 if the optimiser's last step() was skipped.
  /// EMA::update(), for instance, takes it. Call found_inf() between step() and update(). Returns
  /// an undefined tensor if the scaler is disabled.
  /// throws: StateError if not called between step() and update().
  Tensor found_inf(const Optimizer& optimizer) const;

  /// Ends the step and sets the scale for the next one. With several optimisers the step counts as
  /// an overflow if one of them overflowed.
  /// throws: StateError if no gradients were checked since the last update(). LossScaleError if the
  /// scale would have to fall below min_scale; the scale then stays as it is. On the CPU the
  /// update() of this step throws LossScaleError. On a GPU an update() some steps later throws it
  /// or, if update() is in a CUDA graph, after_launch().
  void update();

  /// Call it after each launch of a CUDA graph (core/capture/cuda_graph.h) into which update() was
  /// captured. It fetches the scale to the host, which the captured update() does not do. Never
  /// waits.
  /// throws: LossScaleError if the scale would have to fall below min_scale.
  void after_launch();

  /// Discards the checks of gradients since the last update(). Call it for a step that is given up
  /// after an error.
  void abandon_step() { checks_.clear(); }

  /// The scale; 1 if the scaler is disabled. Waits for the device.
  double get_scale() const;

  struct Progress {
    double scale;
    int64_t steps, skipped;  // calls of update(); those that followed an overflow
  };
  /// The newest scale and counts of steps that the host has, for a progress line. They are exact on
  /// the CPU and some steps old on a GPU. Never waits.
  Progress progress() const;
  /// The exact scale and counts of steps after the last update(), for a checkpoint or a row of
  /// metrics. Waits for the device.
  Progress read_progress() const;

  bool enabled() const { return options_.enabled; }
  const GradScalerOptions& options() const { return options_; }

  /// Entries: scale, growth_factor, backoff_factor, growth_interval, growth_tracker; no entries if
  /// disabled. scale and growth_tracker share memory with the scaler; clone() them to keep their
  /// values.
  StateDict state_dict() const;
  /// Loads the state_dict() of a GradScaler. Does nothing if disabled. Waits for the device if the
  /// state is on a GPU.
  /// throws: ValueError listing every entry that is missing, unexpected or out of range; StateError
  /// between unscale_() or step() and update(). Nothing has changed then.
  void load_state_dict(const StateDict& state);

 private:
  friend class Lookahead;  // looks at the scale's device

  struct Check {  // of one optimiser's gradients, since the last update()
    const Optimizer* optimizer;
    Tensor found_inf;  // 0-d f32; undefined if no parameter had a gradient
    bool stepped = false;
  };

  /// Makes scale_, growth_tracker_ and what belongs to them on `device`. All or nothing.
  void make_state(Device device, double scale_now, int64_t tracker_now);
  const Check* find_check(const Optimizer& optimizer) const;
  void check_gradients(const Optimizer& optimizer) const;
  Tensor fused_step(Optimizer& optimizer, double max_grad_norm);
  bool is_captured() const;
  bool poll() const;
  void fail_at_floor();
  void await_report();

  GradScalerOptions options_;
  double scale_at_start_;  // the scale until the first scale() makes scale_
  int64_t tracker_at_start_ = 0;

  Tensor scale_, growth_tracker_;  // 0-d f32, i64; undefined before the first scale()
  Tensor counts_;                  // a LossScaleCounts on the device
  Tensor report_;                  // a LossScaleReport in memory that the host reads
  std::optional<Event> reported_;  // recorded after the kernel that writes the report
  mutable bool report_pending_ = false;
  mutable LossScaleReport known_;  // the last report that arrived
  std::vector<Check> checks_;
  int64_t step_ = 1;  // the step that the next update() ends
};

namespace cpu {
/// Divides every gradient, dense or not, by the scale. Sets found_inf to 1 if an element was inf or
/// NaN.
void unscale_grads(const Tensors& grads, const Tensor& scale, const Tensor& found_inf);
/// One step of `rule`. `report` may be undefined.
void update_loss_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& counts,
                       const Tensor& report, const Tensor& found_inf, const LossScaleRule& rule);
}  // namespace cpu
namespace cuda {
void unscale_grads(const Tensors& grads, const Tensor& scale, const Tensor& found_inf);
/// Writes a LossScaleReport of the present values. `report` lies in pinned memory.
void report_loss_scale(const Tensor& scale, const Tensor& counts, const Tensor& report);
/// `report` lies in pinned memory.
void update_loss_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& counts,
                       const Tensor& report, const Tensor& found_inf, const LossScaleRule& rule);
}  // namespace cuda

}  // namespace lathe::optim
