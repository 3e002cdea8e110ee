// For tests of the emulated threads themselves: no stream, no queue.
#pragma once

#include "lathe/core/gpu/launch.h"

namespace lathe::test {

/// The kernel has run, on host memory, when this returns.   throws: what a thread throws.
template <class... Parameters, class... Arguments>
void run_now(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
             Arguments&&... arguments) {
  emulation::run_grid(reinterpret_cast<void (*)()>(kernel), grid, block, shared_bytes,
                      [&] { kernel(static_cast<Parameters>(arguments)...); });
}

}  // namespace lathe::test
