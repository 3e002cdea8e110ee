// measure_arithmetic_peak(): chains of multiply-adds that never touch memory. This file alone is
// compiled with -ffp-contract=fast, so that a multiplication and an addition are one instruction.
#include "lathe/tools/cli/commands/arithmetic_peak.h"

#include <algorithm>
#include <atomic>

#include "lathe/core/config.h"
#include "lathe/core/thread_pool.h"

namespace lathe::cli {
namespace {

constexpr int kLanes = 16;  // of f32: one register of AVX-512, two of AVX2, four of SSE
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

/// kChains independent sums, each the next one's factor: a result is ready some cycles after its
/// operation began, so only many chains keep every unit busy. Too many do not fit the registers.
template <int kChains>
LATHE_CLONES float multiply_adds(int64_t rounds, float factor, float summand) {
  const Lanes f = Lanes{} + factor, s = Lanes{} + summand;
  Lanes chains[kChains];
  for (int k = 0; k < kChains; ++k) chains[k] = Lanes{} + static_cast<float>(k);
  for (int64_t i = 0; i < rounds; ++i) {
    for (int k = 0; k < kChains; ++k) chains[k] = chains[k] * f + s;
  }
  Lanes sum = chains[0];
  for (int k = 1; k < kChains; ++k) sum += chains[k];
  float result = 0;
  for (int lane = 0; lane < kLanes; ++lane) result += sum[lane];
  return result;
}

template <int kChains>
double operations_per_second(const TimingOptions& timing) {
  constexpr int64_t kRounds = int64_t{1} << 18;  // about 1 ms
  const int threads = num_threads();
  std::atomic<float> result = 0;  // somebody needs it: the compiler keeps the loop
  const double seconds =
      measure(
          [&] {
            parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) {
                result.store(multiply_adds<kChains>(kRounds, 0.5F, 1), std::memory_order_relaxed);
              }
            });
          },
          timing)
          .low;
  return 2.0 * kChains * kLanes * kRounds * threads / seconds;
}

}  // namespace

double measure_arithmetic_peak(const TimingOptions& timing) {
  // 12 chains fill the registers of AVX-512, 6 those of AVX2, 3 those of SSE.
  return std::max({operations_per_second<12>(timing), operations_per_second<6>(timing),
                   operations_per_second<3>(timing)});
}

}  // namespace lathe::cli
