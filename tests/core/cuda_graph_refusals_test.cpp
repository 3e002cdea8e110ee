// cuda::Graph over an emulated GPU that refuses its calls one by one. Where memory is missing:
// cuda_graph_faults_test.cpp.
#include <doctest/doctest.h>

#include <vector>

#include "../cuda_case.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/cuda.h"
#include "lathe/core/fault.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/random/generator.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"

using namespace lathe;

TEST_CASE("cuda graph: each of its calls may fail" * test::cuda_case()) {
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
  const size_t graphs = emulation::runtime_probe().graphs, allocated = cuda::memory_allocated();
  int failed = 0;
  for (int64_t n = 1; n < 20; ++n) {
    const ArmedFault fault(emulation::runtime_probe().graph_fault, n);
    try {
      CHECK(run() == expected);
    } catch (const Error&) {
      ++failed;
    }
    CHECK(emulation::runtime_probe().graphs == graphs);
    CHECK(cuda::memory_allocated() == allocated);
    CHECK(x.to(kCPU).to_vector<float>() == std::vector<float>(1000, 1));
  }
  CHECK(failed >= 2);
  CHECK(run() == expected);
  CHECK(graphs == 0);
}

TEST_CASE("cuda graph: a launch that fails moves no generator, and the next one draws its numbers" *
          test::cuda_case()) {
  const Device gpu(DeviceType::kCUDA);
  Generator first(7), second(8), other(7);
  const Tensor x = zeros({8}, {.device = gpu}), y = zeros({8}, {.device = gpu});
  cuda::Graph graph(gpu);
  graph.capture([&] {
    uniform_(x, 0, 1, &first);
    uniform_(y, 0, 1, &second);
  });
  {
    const ArmedFault fault(emulation::runtime_probe().graph_fault, 1);
    CHECK_THROWS_AS(graph.launch(), CudaError);
  }
  CHECK(first.state() == Generator::State{7, 0});
  CHECK(second.state() == Generator::State{8, 0});
  graph.launch();
  uniform_(y, 0, 1, &other);
  CHECK(x.to(kCPU).to_vector<float>() == y.to(kCPU).to_vector<float>());
  CHECK(first.state() == other.state());
}
