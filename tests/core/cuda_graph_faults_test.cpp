// cuda::Graph where memory is missing: on a GPU or an emulated one. Where its own calls are
// refused: cuda_graph_refusals_test.cpp.
#include <doctest/doctest.h>

#include <vector>

#include "../cuda_case.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/cuda.h"
#include "lathe/core/fault.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"

using namespace lathe;

TEST_CASE("cuda graph: each allocation of the work may fail" * test::cuda_case()) {
  const Device gpu(DeviceType::kCUDA);
  const Tensor x = full({1000}, 1.0, {.device = gpu});
  const auto run = [&] {
    cuda::Graph graph(gpu);
    Tensor y;
    graph.capture([&] { y = add(mul(x, 2.0), 1.0); });
    graph.launch();
    return y.to(kCPU).to_vector<float>();
  };
  const std::vector<float> expected(1000, 3);
  CHECK(run() == expected);
  const size_t allocated = cuda::memory_allocated();
  int failed = 0;
  for (int64_t n = 1; n < 20; ++n) {
    const ArmedFault fault(cuda::allocation_fault(gpu), n);
    try {
      CHECK(run() == expected);
    } catch (const Error&) {
      ++failed;
    }
    CHECK(cuda::memory_allocated() == allocated);
  }
  CHECK(failed >= 2);
  CHECK(run() == expected);
  CHECK(x.to(kCPU).to_vector<float>() == std::vector<float>(1000, 1));
}
