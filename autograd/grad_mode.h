// Whether ops record gradients: each thread's state, and the scopes that change it.
#pragma once

#include "lathe/core/config.h"

namespace lathe {

/// True where ops on this thread record gradients (the default).
LATHE_API bool grad_enabled() noexcept;
/// True inside an InferenceMode scope.
LATHE_API bool inference_enabled() noexcept;

namespace autograd {
struct Mode {
  bool grad = true;
  bool inference = false;
  // Without grad, an op that would be recorded with it sets this (checkpoint.cpp).
  bool* would_record = nullptr;
};
LATHE_API Mode exchange_mode(Mode mode) noexcept;  // → the mode before
LATHE_API Mode current_mode() noexcept;
/// True while gradients are recorded, and while checkpoint() calls its function for the first time.
/// Nothing is recorded in this first call, but its ops must compute the same bits as in the second
/// call, which is recorded.
LATHE_API bool may_record() noexcept;

/// Sets the thread's mode, and restores the old mode at the scope's end.
class LATHE_API ModeScope {
 public:
  [[nodiscard]] explicit ModeScope(Mode mode) : before_(exchange_mode(mode)) {}
  ~ModeScope() { exchange_mode(before_); }
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  Mode before_;
};
}  // namespace autograd

/// { NoGrad off; … }: nothing is recorded on this thread until the scope ends.
struct NoGrad : autograd::ModeScope {
  [[nodiscard]] NoGrad() : ModeScope({false, inference_enabled()}) {}
};

using NoGradGuard = NoGrad;  // LibTorch's name

/// { EnableGrad on; … }: records again inside a NoGrad scope. Has no effect inside InferenceMode.
struct EnableGrad : autograd::ModeScope {
  [[nodiscard]] EnableGrad() : ModeScope({!inference_enabled(), inference_enabled()}) {}
};

/// { InferenceMode on; … }: like NoGrad, but the results are marked. A recorded op that later gets
/// a marked tensor throws StateError. A result of NoGrad would silently be a constant for that op.
struct InferenceMode : autograd::ModeScope {
  [[nodiscard]] InferenceMode() : ModeScope({false, true}) {}
};

}  // namespace lathe
