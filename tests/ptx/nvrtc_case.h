// Decorator of test cases that need NVRTC: skipped, counted and explained where it is not installed.
// TEST_CASE("…" * test::nvrtc_case())
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "lathe/core/error.h"
#include "lathe/graph/fused/kernel_compiler.h"
#include "lathe/tests/cuda_case.h"

namespace lathe::test {

inline CudaCase nvrtc_case() {
  static const std::string& problem = *new const std::string([]() -> std::string {
    try {
      return jit::kernel_target(9, 0).empty() ? "NVRTC has no target" : "";
    } catch (const NoCudaError& absent) {
      return absent.message();
    }
  }());
  return {problem.empty(), problem.c_str()};
}

}  // namespace lathe::test
