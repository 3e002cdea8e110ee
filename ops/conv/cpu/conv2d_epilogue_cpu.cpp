// Sum and relu in place. Contract: conv2d_epilogue_cpu.h.
#include "lathe/ops/conv/cpu/conv2d_epilogue_cpu.h"

#include <cstdint>

#include "lathe/core/config.h"
#include "lathe/core/thread_pool.h"

namespace lathe::cpu {

namespace {

constexpr int64_t kGrain = 32768;

/// Written as `y < 0 ? 0 : y`, so that NaN passes through.
LATHE_CLONES void cut(float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = y[i] < 0.f ? 0.f : y[i];
}
LATHE_CLONES void add(float* y, const float* residual, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += residual[i];
}
LATHE_CLONES void add_and_cut(float* y, const float* residual, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float sum = y[i] + residual[i];
    y[i] = sum < 0.f ? 0.f : sum;
  }
}

}  // namespace

void apply_epilogue(const Tensor& y, const Conv2dEpilogue& then) {
  if (!then.relu && !then.residual.defined()) return;
  float* const to = y.data<float>();
  const float* const residual = then.residual.defined() ? then.residual.data<float>() : nullptr;
  parallel_for(y.numel(), kGrain, [&](int64_t first, int64_t last) {
    if (residual == nullptr) {
      cut(to + first, last - first);
    } else if (then.relu) {
      add_and_cut(to + first, residual + first, last - first);
    } else {
      add(to + first, residual + first, last - first);
    }
  });
}

}  // namespace lathe::cpu
