// The kernel of ops/elementwise_kernels/creation_cuda.cu against the CPU: every sequence in every dtype.
#include "lathe/ops/creation.h"

#include <doctest/doctest.h>

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

template <class Sequence>
void compare(Sequence sequence) {
  for (int d = 0; d < kNumDTypes; ++d) {
    for (const int64_t n : {0, 1, 33, 1025}) {
      const Tensor want = zeros({n}, {.dtype = static_cast<DType>(d)}),
                   got = on_device(want.clone());
      cpu::fill_sequence(want, sequence);
      cuda::fill_sequence(got, sequence);
      const std::string text = difference(on_host(got), want, 0);
      CHECK_MESSAGE(text.empty(), concat(want), ": ", text);
    }
  }
}

}  // namespace

TEST_CASE("sequence kernel: equals the CPU op bit for bit, for every dtype") {
  compare(math::IntegerSequence{static_cast<uint64_t>(-3), 7});
  compare(math::IntegerSequence{static_cast<uint64_t>(INT64_MAX) - 5, static_cast<uint64_t>(-1)});
  compare(math::FloatSequence{0.25, -0.1});
  compare(math::EvenlySpaced{-1, 1.3, 2.3 / 1024, 1025});
}
