// Decorator of test cases that need a GPU, real or emulated: skipped, counted and explained where
// there is none.  TEST_CASE("…" * cuda_case())
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "lathe/core/cuda.h"
#include "lathe/core/format.h"

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

/// For tests of so many GPUs at once.
inline CudaCase gpus_case(int count) {
  if (!cuda_is_available()) return {false};
  const int there = cuda::device_count();
  if (there >= count) return {true};
  static std::string reasons[10];
  return {false, (reasons[count] = concat("needs ", count, " GPUs, here: ", there)).c_str()};
}

/// For kernel tests, which in a build without the backend run on host tensors.
inline CudaCase kernel_case() { return {!kHasCuda || cuda_is_available()}; }

}  // namespace lathe::test
