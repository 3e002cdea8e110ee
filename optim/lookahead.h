// Lookahead: slow weights that follow an optimiser's fast ones.
//   optim::AdamW fast(model.parameters(), {.lr = 1e-3});
//   optim::Lookahead optimizer(fast);
//   … optimizer.step();                          // in place of fast.step()
//   … optimizer.step(scaler); scaler.update();   // in place of scaler.step(fast)
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/optimizer.h"

namespace lathe::optim {

struct LookaheadOptions {
  static constexpr const char* kName = "Lookahead";

  int64_t k = 5;       // the slow weights are updated after every k-th step of the optimiser
  double alpha = 0.5;  // how far the slow weights go towards the fast ones
};

/// Calls an optimiser's step(). After every k-th step, for the slow weights s and the parameters p:
///   s += alpha·(p - s);   p = s
/// The slow weights begin as the parameters, in f32 for half parameters. On a GPU, their update
/// takes one launch per dtype, and one more if some parameters have half copies
/// (Optimizer::set_half_copies), which it writes too. The update does not change the optimiser's
/// state (momentum and the like). A Lookahead cannot be copied or moved. The optimiser must outlive
/// it.
///   - A step that StepOptions::found_inf or the scaler skips does not count.
///   - From the first call with a found_inf on a GPU, or from set_capturable() on, the count is in
///     the GPU's memory and the host does not wait for it. Each call then launches the update,
///     which ends without a change unless it is due, and raises the parameters' versions once more.
///   - Until then the host counts the calls. So a captured CUDA graph without a found_inf must
///     contain k calls, and the first of them must follow an update of the slow weights.
/// ref: Zhang et al. 2019 (arXiv:1907.08610).
class LATHE_API Lookahead {
 public:
  /// throws: ValueError for k < 1, an alpha outside [0,1], a parameter whose memory has gaps, or a
  /// parameter for which the optimiser has master weights.
  explicit Lookahead(Optimizer& optimizer, const LookaheadOptions& options = {});
  Lookahead(const Lookahead&) = delete;
  Lookahead& operator=(const Lookahead&) = delete;

  /// Calls the optimiser's step(), and after every k-th one updates the slow weights.
  /// → what Optimizer::step() returns
  /// throws: what Optimizer::step() throws; StateError if a parameter no longer fits its slow
  /// weight, or if a capture contains the first call with a found_inf and set_capturable() was not
  /// called; DeviceError for a found_inf on a GPU if parameters are elsewhere. Nothing has changed
  /// then.
  Tensor step(const StepOptions& options = {});
  /// Calls scaler.step(optimizer()) instead.
  /// → what GradScaler::step() returns
  /// throws: what GradScaler::step() and the other form throw.
  Tensor step(GradScaler& scaler, const ScaledStepOptions& options = {});
  Optimizer& optimizer() const { return optimizer_; }

  /// Keeps the count of steps in the GPU's memory from now on, so that a CUDA graph with any number
  /// of calls of step() can be captured: each launch counts them. The optimiser needs its own
  /// set_capturable(). After load_state_dict(), do not launch CUDA graphs captured before: they
  /// refer to released memory. Has no effect on the CPU.
  /// throws: DeviceError if the parameters are on several devices; StateError during a capture.
  void set_capturable();

  /// Entries: steps, and slow.0, slow.1, … in the order of Optimizer::params(). The optimiser's own
  /// state is not among them. Waits for the device if the count is in its memory.
  StateDict state_dict() const;
  /// Loads the state_dict() of a Lookahead; copies the tensors.
  /// throws: ValueError for an entry that is missing, unexpected or of another shape. Nothing has
  /// changed then.
  void load_state_dict(const StateDict& state);

 private:
  /// An update of all slow weights, in the order of params_; empty if none is due.
  struct Pending {
    std::vector<UpdateItem> items;
    Tensors half_copies = {};
  };

  /// `flag` is the device of found_inf, or the CPU if there is none.
  Pending gather(Device flag);
  /// Counts the step and updates the slow weights, unless `found_inf` says that it was skipped.
  void follow(Pending pending, const Tensor& found_inf);
  bool is_due() const { return count_.defined() || (steps_ + 1) % options_.k == 0; }

  Optimizer& optimizer_;
  const LookaheadOptions options_;
  Tensors params_, slow_;
  int64_t steps_ = 0;  // not used once count_ is defined
  Tensor count_;       // i64 on the GPU, from the first step that it may skip or repeat
};

}  // namespace lathe::optim
