// Decorator of test cases that need a GPU, real or emulated: skipped, counted and explained where
// there is none.  TEST_CASE("…" * cuda_case())
#pragma once

#include <doctest/doctest.h>

#include "lathe/core/cuda.h"

namespace lathe::test {

struct CudaCase {
  void fill(doctest::detail::TestCase& test) const { explain(test); }
  void fill(doctest::detail::TestSuite& suite) const { explain(suite); }

 private:
  template <class T>
  static void explain(T& test) {
    if (cuda_is_available()) return;
    test.m_skip = true;
    test.m_description = cuda::unavailable_reason().c_str();
  }
};
inline CudaCase cuda_case() { return {}; }

}  // namespace lathe::test
