// The random source in use, one setting for the process. Contract: random_source.h.
#include "lathe/ops/random_source.h"

#include <atomic>

#include "lathe/core/error.h"

namespace lathe {

namespace {
std::atomic<RandomSource> g_source{RandomSource::kLathe};
}

void set_random_source(RandomSource source) {
  LATHE_CHECK(NoCudaError, source == RandomSource::kLathe || kHasCudaLibraries,
              "set_random_source: this build has no cuRAND; configure with -DLATHE_CUDA=ON");
  if constexpr (kHasCudaLibraries) {
    if (source != RandomSource::kLathe) cuda::load_curand();
  }
  g_source.store(source, std::memory_order_relaxed);
}

RandomSource random_source() noexcept { return g_source.load(std::memory_order_relaxed); }

}  // namespace lathe
