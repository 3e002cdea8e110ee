// The two switches, as atomics.
#include "lathe/core/math_mode.h"

#include <atomic>

namespace lathe {

namespace {
std::atomic<bool> deterministic_mode{false}, tf32_mode{false};
}

void set_deterministic(bool on) noexcept { deterministic_mode = on; }
bool deterministic() noexcept { return deterministic_mode; }

void set_tf32(bool on) noexcept { tf32_mode = on; }
bool tf32() noexcept { return tf32_mode; }

}  // namespace lathe
