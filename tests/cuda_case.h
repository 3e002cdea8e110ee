// Decorator of test cases that need a GPU, real or emulated: skipped, counted and explained where
// there is none.  TEST_CASE("…" * cuda_case())
#pragma once

#include <doctest/doctest.h>

#include "lathe/core/cuda.h"

namespace lathe::test {

struct CudaCase {
  bool runs;
  const char* reason = nullptr;  // why not; absent: the machine has no GPU

  template <class TestCaseOrSuite>
  void fill(TestCaseOrSuite& test) const {
    if (runs) return;
    test.m_skip = true;
    test.m_description = reason != nullptr ? reason : cuda::unavailable_reason().c_str();
  }
};
inline CudaCase cuda_case() { return {cuda_is_available()}; }

/// For kernel tests, which in a build without the backend run on host tensors.
inline CudaCase kernel_case() { return {!kHasCuda || cuda_is_available()}; }

}  // namespace lathe::test
