// GradScaler: loss scaling for training in f16, whose gradients would otherwise vanish below 2^-24.
// loss_scale_math.h has the arithmetic of the scale.
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
  double min_scale = 0x1p-14;      // a scale that would fall below is an error
  bool dynamic = true;  // false: the scale stays init_scale; steps that overflow are still skipped
  bool enabled = true;  // false: everything passes through
};

struct ScaledStepOptions {
  // Above 0: clips the optimiser's parameters to this norm after unscaling, as clip_grad_norm_.
  double max_grad_norm = 0;
  // Unscale, look for overflow and clip inside the update: on a GPU three launches for a group
  // instead of seven. The gradients in memory stay scaled.
  bool fused = false;
};

/// The loss scale would have fallen below GradScalerOptions::min_scale: the gradients are inf or
/// NaN at any scale.
class LATHE_API LossScaleError : public StateError {
  using StateError::StateError;
};

/// Multiplies the loss, and so all gradients, by a scale, and divides the gradients by it before
/// the optimiser sees them. A step whose gradients overflowed is skipped and lowers the scale;
/// growth_interval steps without overflow raise it. Scale, overflow flags and growth count live on
/// the device of the loss, and the host never waits for them. Several optimisers may share one
/// scaler.
/// Neither copied nor moved. An optimiser must outlive the update() after its step().
/// ref: Micikevicius et al. 2018 (arXiv:1710.03740); defaults and order of calls as in PyTorch.
class LATHE_API GradScaler {
 public:
  /// throws: ValueError unless growth_factor > 1, 0 < backoff_factor < 1, growth_interval >= 1 and
  /// 0 < min_scale <= init_scale, and all of them are finite in f32.
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;

  /// loss · scale, differentiable. The device of the first loss is the scaler's.
  /// throws: DTypeError unless floating; DeviceError for a loss on another device than the first.
  Tensor scale(const Tensor& loss);

  /// Divides the gradients of the optimiser's parameters by the scale, in place, and records
  /// whether one was inf or NaN. Call it before anything that looks at gradients between backward()
  /// and step(), such as clipping. If it throws, nothing has changed.
  /// throws: StateError before the first scale(), or if called twice before update() or after
  /// step(); DTypeError for f16 or bf16 gradients; DeviceError.
  void unscale_(Optimizer& optimizer);

  /// unscale_() unless it was called, then optimizer.step(). The step is skipped if a gradient was
  /// inf or NaN: no parameter, no buffer and no step count changes. A fused step gives the
  /// parameters the same bits (f32, f64; on a GPU if gradients have their parameters' memory
  /// order).
  /// → with max_grad_norm: the total norm before clipping
  /// throws: StateError if called twice before update(), or if no parameter has a gradient; what
  /// unscale_() and step() throw.
  Tensor step(Optimizer& optimizer, const ScaledStepOptions& options = {});

  /// Between step() and update(): a 0-d f32 that is not 0 if that step was skipped, for what
  /// follows the parameters (EMA::update). Undefined if the scaler is disabled.
  /// throws: StateError at any other time.
  Tensor found_inf(const Optimizer& optimizer) const;

  /// Sets the scale of the next step and begins it. If any of several optimisers overflowed, the
  /// step counts as an overflow.
  /// throws: StateError if no gradients were checked since the last update(). LossScaleError once
  /// the host learns that the scale would have fallen below min_scale in an earlier step (the scale
  /// stayed where it was): at once on the CPU, some steps later on a GPU; from updates that are
  /// captured into a graph by after_launch().
  void update();

  /// Call it after each launch of a graph (core/capture/cuda_graph.h) into which update() was
  /// recorded: the host asks for news of the scale, which the recorded update() does not send.
  /// Never waits.
  /// throws: LossScaleError as update().
  void after_launch();

  /// Forgets the gradients looked at since the last update(), for a step that is given up after an
  /// error.
  void abandon_step() { checks_.clear(); }

  /// The scale; 1 if the scaler is disabled. Waits for the device.
  double get_scale() const;

  struct Progress {
    double scale;
    int64_t steps, skipped;  // calls of update(); those that followed an overflow
  };
  /// The newest values that the host knows, for a progress line: exact on the CPU, some steps old
  /// on a GPU. Never waits.
  Progress progress() const;
  /// The values after every update() so far, for a checkpoint or a row of metrics. Waits for the
  /// device.
  Progress read_progress() const;

  bool enabled() const { return options_.enabled; }
  const GradScalerOptions& options() const { return options_; }

  /// scale, growth_factor, backoff_factor, growth_interval, growth_tracker; empty if disabled. The
  /// scale and the tracker share memory with the scaler; clone() them to keep them.
  StateDict state_dict() const;
  /// Takes over such a state, all or nothing. Does nothing if disabled. Waits if the state is on a
  /// GPU.
  /// throws: ValueError listing what is missing, unexpected or out of range; StateError between
  /// unscale_() or step() and update().
  void load_state_dict(const StateDict& state);

 private:
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
/// grad /= scale for every gradient, dense or not. found_inf becomes 1 if an element was inf or
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
