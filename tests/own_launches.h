// How many kernels of our own some work launches: those of cuDNN and cuBLAS do not count.
#pragma once

#include <cstdint>

#include "lathe/core/cuda.h"

namespace lathe::test {

template <class F>
int64_t own_launches(F&& f) {
  const uint64_t before = cuda::counters().launches;
  f();
  return static_cast<int64_t>(cuda::counters().launches - before);
}

}  // namespace lathe::test
