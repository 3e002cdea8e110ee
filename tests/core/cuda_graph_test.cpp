// cuda::Graph: what is recorded runs at each launch, on the same memory. What cannot be recorded is
// an error that changes nothing.
#include <doctest/doctest.h>

#include <optional>
#include <utility>
#include <vector>

#include "../cuda_case.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/copy.h"
#include "lathe/core/cuda.h"
#include "lathe/core/stream.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"

using namespace lathe;

namespace {

const Device kGpu(DeviceType::kCUDA);

std::vector<float> values(const Tensor& t) { return t.to(kCPU).to_vector<float>(); }

}  // namespace

TEST_CASE("cuda graph: nothing runs while it is recorded, and everything at each launch" *
          test::cuda_case()) {
  const Tensor x = full({3}, 2.0, {.device = kGpu}), sum = zeros({3}, {.device = kGpu});
  Tensor y;
  cuda::Graph graph(kGpu);
  CHECK(graph.size() == 0);
  graph.capture([&] {
    y = mul(x, 10.0);
    sum.add_(y);
  });
  CHECK(graph.size() == 2);
  CHECK(values(sum) == std::vector<float>{0, 0, 0});
  graph.launch();
  CHECK(values(sum) == std::vector<float>{20, 20, 20});
  fill_values(x, 3.0);
  graph.launch();
  CHECK(values(y) == std::vector<float>{30, 30, 30});
  CHECK(values(sum) == std::vector<float>{50, 50, 50});
}

TEST_CASE("cuda graph: launches queue behind the work of the stream that is current" *
          test::cuda_case()) {
  const OwnedStream stream(kGpu);
  const StreamScope on(stream);
  const Tensor x = full({4}, 1.0, {.device = kGpu});
  cuda::Graph graph(kGpu);
  graph.capture([&] { x.mul_(2.0); });
  for (int i = 0; i < 3; ++i) {
    graph.launch();
    x.add_(1.0);
  }
  CHECK(values(x) == std::vector<float>(4, 15));  // ((1*2+1)*2+1)*2+1
}

TEST_CASE("cuda graph: its memory is nobody else's as long as it lives" * test::cuda_case()) {
  const Tensor x = full({1000}, 1.0, {.device = kGpu}), out = empty_like(x);
  const size_t before = cuda::memory_allocated();
  {
    cuda::Graph graph(kGpu);
    graph.capture([&] {  // the sums between are freed while it is recorded
      copy_values(out, add(add(add(x, 1.0), 2.0), 3.0));
    });
    std::vector<Tensor> others;  // would get the freed blocks if they were anybody's
    for (int i = 0; i < 50; ++i) others.push_back(full({1000}, 99.0, {.device = kGpu}));
    graph.launch();
    CHECK(values(out) == std::vector<float>(1000, 7));
    for (const Tensor& other : others) CHECK(values(other) == std::vector<float>(1000, 99));
  }
  CHECK(cuda::memory_allocated() == before);
}

TEST_CASE("cuda graph: graphs with one pool need the memory of one, and take turns" *
          test::cuda_case()) {
  const Tensor x = full({1000}, 1.0, {.device = kGpu});
  const Tensor out[] = {empty_like(x), empty_like(x)};
  Tensor kept;
  const auto work = [&](int i) {
    Tensor y = add(x, static_cast<double>(i));
    if (i == 0) kept = mul(y, 7.0);
    copy_values(out[i], mul(mul(y, 2.0), 3.0));
  };
  cuda::empty_cache();
  std::optional<cuda::Graph> first(std::in_place, kGpu);
  first->capture([&] { work(0); });
  const size_t reserved = cuda::memory_reserved();
  cuda::Graph second = cuda::Graph::with_pool_of(*first);
  CHECK(second.size() == 0);
  second.capture([&] { work(1); });
  CHECK(cuda::memory_reserved() == reserved);
  const OwnedStream streams[] = {OwnedStream(kGpu), OwnedStream(kGpu)};
  cuda::synchronize(kGpu);  // these streams wait for no other
  for (int i = 0; i < 10; ++i) {
    const StreamScope on(streams[i % 2]);
    i % 2 == 0 ? first->launch() : second.launch();
  }
  cuda::synchronize(kGpu);
  CHECK(values(out[0]) == std::vector<float>(1000, 6));
  CHECK(values(out[1]) == std::vector<float>(1000, 12));
  CHECK(values(kept) == std::vector<float>(1000, 7));  // it lived when the second was captured
  first.reset();
  const Tensor other = full({1000}, 99.0, {.device = kGpu});
  fill_values(x, 2.0);
  second.launch();
  CHECK(values(out[1]) == std::vector<float>(1000, 18));
  CHECK(values(kept) == std::vector<float>(1000, 7));
  CHECK(values(other) == std::vector<float>(1000, 99));
}

TEST_CASE("cuda graph: what waits for the GPU cannot be recorded" * test::cuda_case()) {
  const Tensor x = full({4}, 1.0, {.device = kGpu}), host = full({4}, 5.0);
  const auto refuses = [&](auto&& work) {
    cuda::Graph graph(kGpu);
    CHECK_THROWS_AS(graph.capture(work), StateError);
    CHECK(graph.size() == 0);
    CHECK_THROWS_AS(graph.launch(), StateError);
  };
  refuses([&] { x.add_(full({}, 1.0, {.device = kGpu}).item<float>()); });
  refuses([&] { copy_values(x, host); });
  refuses([&] { x.to(kCPU); });
  refuses([&] { synchronize(current_stream(kGpu)); });
  refuses([&] { cuda::synchronize(kGpu); });
  refuses([&] { cuda::Graph(kGpu).capture([&] { x.add_(1.0); }); });
  CHECK(values(x) == std::vector<float>(4, 1));
  x.add_(1.0);  // the thread is out of every capture
  CHECK(values(x) == std::vector<float>(4, 2));
}

TEST_CASE("cuda graph: it is recorded once" * test::cuda_case()) {
  const Tensor x = full({2}, 1.0, {.device = kGpu});
  cuda::Graph graph(kGpu);
  CHECK_THROWS_AS(graph.launch(), StateError);
  graph.capture([&] { x.add_(1.0); });
  CHECK_THROWS_AS(graph.capture([&] { x.add_(1.0); }), StateError);
  cuda::Graph other = std::move(graph);
  other.launch();
  CHECK(values(x) == std::vector<float>(2, 2));
}

TEST_CASE("cuda graph: after an error it can be recorded anew" * test::cuda_case()) {
  const Tensor x = full({2}, 1.0, {.device = kGpu});
  cuda::Graph graph(kGpu);
  CHECK_THROWS_AS(graph.capture([&] {
    x.add_(1.0);
    throw IndexError("a test's");
  }),
                  IndexError);
  graph.capture([&] { x.add_(10.0); });
  graph.launch();
  CHECK(values(x) == std::vector<float>(2, 11));
}

TEST_CASE("cuda graph: without CUDA it says so") {
  if (kHasCuda) return;
  CHECK_THROWS_AS(cuda::Graph(), NoCudaError);
}
