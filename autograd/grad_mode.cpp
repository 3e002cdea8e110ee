// The grad mode of each thread.
#include "lathe/autograd/grad_mode.h"

#include <utility>

namespace lathe {

namespace {
constinit thread_local autograd::Mode t_mode;
}  // namespace

bool grad_enabled() noexcept { return t_mode.grad; }
bool inference_enabled() noexcept { return t_mode.inference; }

namespace autograd {
Mode exchange_mode(Mode mode) noexcept { return std::exchange(t_mode, mode); }
Mode current_mode() noexcept { return t_mode; }
bool may_record() noexcept { return t_mode.grad || t_mode.would_record != nullptr; }
}  // namespace autograd

}  // namespace lathe
