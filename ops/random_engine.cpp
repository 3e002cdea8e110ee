// The random engine in use, one setting for the process. Contract: random_engine.h.
#include "lathe/ops/random_engine.h"

#include <atomic>

#include "lathe/core/error.h"

namespace lathe {

namespace {
std::atomic<RandomEngine> g_engine{RandomEngine::kLathe};
}

void set_random_engine(RandomEngine engine) {
  LATHE_CHECK(NoCudaError, engine == RandomEngine::kLathe || kHasCudaLibraries,
              "set_random_engine: this build has no cuRAND; configure with -DLATHE_CUDA=ON");
  if constexpr (kHasCudaLibraries) {
    if (engine != RandomEngine::kLathe) cuda::load_curand();
  }
  g_engine.store(engine, std::memory_order_relaxed);
}

RandomEngine random_engine() noexcept { return g_engine.load(std::memory_order_relaxed); }

}  // namespace lathe
