// Lookahead: slow weights that follow an optimiser's fast ones.
//   optim::AdamW fast(model.parameters(), {.lr = 1e-3});
//   optim::Lookahead optimizer(fast);
//   … optimizer.step();                          // in place of fast.step()
#pragma once

#include <cstdint>

#include "lathe/optim/optimizer.h"

namespace lathe::optim {

struct LookaheadOptions {
  static constexpr const char* kName = "Lookahead";

  int64_t k = 5;       // the slow weights are updated after every k-th step of the optimiser
  double alpha = 0.5;  // how far the slow weights go towards the fast ones
};

/// Calls an optimiser's step(). After every k-th call, for the slow weights s and the parameters p:
///   s += alpha·(p - s);   p = s
/// The slow weights begin as the parameters, in f32 for half parameters. On a GPU, their update
/// takes one launch per dtype. The update does not change the optimiser's state (momentum and the
/// like). A Lookahead cannot be copied or moved. The optimiser must outlive it.
///   - A call counts even if StepOptions::found_inf makes the optimiser skip its step.
///   - The host counts the calls. So a captured CUDA graph must contain k calls, and the first of
///     them must follow an update of the slow weights.
/// ref: Zhang et al. 2019 (arXiv:1907.08610).
class LATHE_API Lookahead {
 public:
  /// throws: ValueError for k < 1, an alpha outside [0,1], a parameter whose memory has gaps, or a
  /// parameter for which the optimiser has master weights.
  explicit Lookahead(Optimizer& optimizer, const LookaheadOptions& options = {});
  Lookahead(const Lookahead&) = delete;
  Lookahead& operator=(const Lookahead&) = delete;

  /// Calls the optimiser's step(), and after every k-th call updates the slow weights.
  /// → what Optimizer::step() returns
  /// throws: what Optimizer::step() throws; StateError if a parameter no longer fits its slow
  /// weight. Nothing has changed then.
  Tensor step(const StepOptions& options = {});
  Optimizer& optimizer() const { return optimizer_; }

  /// Entries: steps, and slow.0, slow.1, … in the order of Optimizer::params(). The optimiser's own
  /// state is not among them.
  StateDict state_dict() const;
  /// Loads the state_dict() of a Lookahead; copies the tensors.
  /// throws: ValueError for an entry that is missing, unexpected or of another shape. Nothing has
  /// changed then.
  void load_state_dict(const StateDict& state);

 private:
  Optimizer& optimizer_;
  const LookaheadOptions options_;
  Tensors params_, slow_;
  int64_t steps_ = 0;
};

}  // namespace lathe::optim
