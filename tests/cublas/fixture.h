// What the tests over the emulated cuBLASLt share.
#pragma once

#include <string>
#include <string_view>

#include "lathe/core/log.h"
#include "lathe/core/math_mode.h"
#include "lathe/ops/random.h"
#include "lathe/tests/emulation/cublas_emulation.h"

namespace lathe::test {

inline const Device kGpu(DeviceType::kCUDA);

/// A test with the same random numbers whichever ran before, which collects what is logged. At its
/// end cuBLAS knows everything again, and the modes are off.
struct Fixture {
  Fixture() {
    manual_seed(41);
    handler = set_log_handler([this](LogLevel, std::string_view text) { logged += text; });
  }
  ~Fixture() {
    emulation::cublas_probe().failing.clear();
    emulation::cublas_probe().knows_none = false;
    emulation::cublas_probe().unknown.clear();
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
