// What the tests of cuBLASLt share: a clean start, and what the emulated one tells. Of a real one that
// is unknown.
#pragma once

#include <string>
#include <string_view>

#include "../emulated_count.h"
#include "lathe/core/log.h"
#include "lathe/core/math_mode.h"
#include "lathe/ops/random.h"
#ifdef LATHE_CUDA_EMULATED
#  include "lathe/tests/emulation/cublas_emulation.h"
#endif

namespace lathe::test {

inline const Device kGpu(DeviceType::kCUDA);

#ifdef LATHE_CUDA_EMULATED

/// Products that cuBLAS has queued, so far.
inline EmulatedCount products() { return static_cast<int64_t>(emulation::cublas_probe().products); }

/// cuBLAS knows everything, and nothing fails any more.
inline void mend_cublas() {
  emulation::cublas_probe().failing.clear();
  emulation::cublas_probe().knows_none = false;
  emulation::cublas_probe().unknown.clear();
}

#else

inline EmulatedCount products() { return {}; }
inline void mend_cublas() {}

#endif

/// A test with the same random numbers whichever ran before, which collects what is logged. At its
/// end cuBLAS is mended, and the modes are off.
struct Fixture {
  Fixture() {
    manual_seed(41);
    handler = set_log_handler([this](LogLevel, std::string_view text) { logged += text; });
  }
  ~Fixture() {
    mend_cublas();
    set_tf32(false);
    set_deterministic(false);
    set_log_handler(handler);
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  std::string logged;
  LogHandler handler;
};

}  // namespace lathe::test
