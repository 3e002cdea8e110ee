// Storage of the CPU's setting. Contract: cpu_settings.h.
#include "lathe/ops/conv_search/cpu_settings.h"

#include <atomic>

namespace lathe::cpu {

static std::atomic<bool> g_conv_benchmark{false};

void set_conv_benchmark(bool on) noexcept { g_conv_benchmark.store(on, std::memory_order_relaxed); }
bool conv_benchmark() noexcept { return g_conv_benchmark.load(std::memory_order_relaxed); }

}  // namespace lathe::cpu
