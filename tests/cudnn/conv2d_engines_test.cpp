// How convolutions use cuDNN's engines, over the emulated cuDNN: which one runs, with what memory,
// and what becomes of its failures. How they are searched: conv2d_search_test.cpp.
#include <string>
#include <thread>

#include "cudnn_problem.h"
#include "lathe/core/gpu/cudnn_handle.h"
#include "lathe/core/stream.h"
#include "lathe/tests/emulation/cudnn_emulation.h"

using namespace lathe;
using namespace lathe::test;
using emulation::cudnn_probe;
using Fixture = CudnnFixture;
using Problem = CudnnProblem;

TEST_CASE("engines: tensor cores for half types, their channels padded") {
  Fixture f;
  for (const auto& [channels, filters] : {std::pair<int64_t, int64_t>{8, 16}, {3, 5}, {8, 7}}) {
    const Problem p(channels, filters, 6, kF16);
    p.check(p.forward());
    CHECK(cudnn_probe().last_engine() == 7);
  }
  const Problem planes(3, 5, 6, kF16, kContiguous);
  planes.check(planes.forward());
  CHECK(cudnn_probe().last_engine() != 7);
}

TEST_CASE("engines: f64 never comes to cuDNN") {
  Fixture f;
  const Problem p(3, 5, 7, kF64);
  const uint64_t asked = cudnn_probe().heuristics, made = cudnn_probe().plans_made;
  const int64_t last = cudnn_probe().last_engine();
  p.check(p.forward());
  const Tensor dw = p.backward_weight(), want = cpu::conv2d_backward_weight(p.g, p.dy, p.x);
  CHECK(difference(dw.cpu(), want, tolerance_of(kF64)) == "");
  const Tensor dx = cuda::conv2d_backward_input(p.g, Problem::on_gpu(p.dy), Problem::on_gpu(p.w));
  CHECK(difference(dx.cpu(), cpu::conv2d_backward_input(p.g, p.dy, p.w), tolerance_of(kF64)) == "");
  CHECK(cudnn_probe().heuristics == asked);
  CHECK(cudnn_probe().plans_made == made);
  CHECK(cudnn_probe().last_engine() == last);
}

TEST_CASE("engines: tensor cores for half types at odd addresses, which are copied") {
  Fixture f;
  const Problem p(8, 8, 8, kF16);
  const auto shifted = [](const Tensor& t) {  // by one element
    const Tensor room = zeros({t.numel() + 1}, {.dtype = t.dtype()});
    alias(room, t.shape(), t.strides(), 1).copy_(t);
    return alias(room.to(kGpu), t.shape(), t.strides(), 1);
  };
  const Tensor x = shifted(p.x), w = shifted(p.w.contiguous(kChannelsLast));
  const Tensor y = cuda::conv2d_forward(p.g, x, w, {});
  p.check(y);
  CHECK(cudnn_probe().last_engine() == 7);
  const Tensor dy = shifted(p.dy);
  CHECK(difference(cuda::conv2d_backward_weight(p.g, dy, x).cpu(),
                   cpu::conv2d_backward_weight(p.g, p.dy, p.x), tolerance_of(kF16)) == "");
  CHECK(cudnn_probe().last_engine() == 7);
  CHECK(difference(cuda::conv2d_backward_input(p.g, dy, w).cpu(),
                   cpu::conv2d_backward_input(p.g, p.dy, p.w), tolerance_of(kF16)) == "");
  CHECK(cudnn_probe().last_engine() == 7);
}

TEST_CASE("engines: f32 stays f32 unless TF32 is on, and no engine rounds its inputs unasked") {
  Fixture f;
  const Problem p(8, 8, 7);
  p.check(p.forward());
  CHECK(cudnn_probe().last_engine() == 3);  // 7 and 5 come first
  set_tf32(true);
  const Tensor rounded = p.forward();
  CHECK(cudnn_probe().last_engine() == 7);
  CHECK(difference(rounded.cpu(), cpu::conv2d_forward(p.g, p.x, p.w, {}), 2e-3) == "");
}

TEST_CASE("engines: deterministic mode passes over those that are not") {
  Fixture f;
  const Problem p(4, 4, 9);
  p.forward();
  CHECK(cudnn_probe().last_engine() == 3);
  set_deterministic(true);
  p.check(p.forward());
  CHECK(cudnn_probe().last_engine() == 4);
  p.backward_weight();
  CHECK(cudnn_probe().last_engine() == 4);
}

TEST_CASE("engines: memory that is short takes no other engine in deterministic mode") {
  Fixture f;
  set_deterministic(true);
  const Problem p(4, 4, 10);
  const Tensor x = Problem::on_gpu(p.x), w = Problem::on_gpu(p.w);
  const Tensor y = cuda::conv2d_forward(p.g, x, w, {});
  CHECK(cudnn_probe().last_engine() == 4);
  FaultPoint& point = cuda::allocation_fault(kGpu);
  point.count();
  cuda::conv2d_forward(p.g, x, w, {});
  const int64_t workspace = point.calls();  // the last allocation
  {
    const ArmedFault fault(point, workspace, FaultPoint::kForever);
    CHECK_THROWS_AS(cuda::conv2d_forward(p.g, x, w, {}), OutOfMemoryError);
  }
  CHECK(difference(cuda::conv2d_forward(p.g, x, w, {}).cpu(), y.cpu(), 0) == "");
  CHECK(cudnn_probe().last_engine() == 4);
  CHECK(f.logged.empty());
}

TEST_CASE("engines: in deterministic mode no other engine or kernel computes for one that fails") {
  Fixture f;
  set_deterministic(true);
  const Problem p(4, 4, 25);
  cudnn_probe().failing = {4};  // also of a first call
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS(p.forward(), doctest::Contains("x=f32[2,4,25,25]"), CudaError);
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  CHECK(cudnn_probe().executions.empty());
  cudnn_probe().failing.clear();
  const Tensor y = p.forward();
  CHECK(cudnn_probe().last_engine() == 4);
  cudnn_probe().refused = {4};  // no plan for another thread of what this one computes with 4
  std::thread([&] { CHECK_THROWS_AS(p.forward(), CudaError); }).join();
  CHECK(difference(p.forward().cpu(), y.cpu(), 0) == "");
  CHECK(f.logged.empty());
  cudnn_probe().refused = {0, 3, 4, 7};
  const Problem q(4, 4, 27);  // none has a plan: always our own kernel
  for (int i = 0; i < 2; ++i) q.check(q.forward());
  CHECK(f.logged.find("conv2d: cuDNN does not compute this") != std::string::npos);
}

TEST_CASE("engines: the workspace is the plan's, and is given back") {
  Fixture f;
  const Problem p(4, 6, 11);
  const size_t before = cuda::memory_allocated(kGpu);
  {
    const Tensor y = p.forward();
    CHECK(cudnn_probe().executions.back().workspace_bytes == 4 * y.numel());
    p.check(y);
  }
  CHECK(cuda::memory_allocated(kGpu) == before);
}

TEST_CASE("engines: one search and one plan for calls that are alike") {
  Fixture f;
  const Problem p(4, 6, 12);
  const uint64_t heuristics = cudnn_probe().heuristics, plans = cudnn_probe().plans_made;
  for (int i = 0; i < 3; ++i) p.check(p.forward());
  CHECK(cudnn_probe().heuristics == heuristics + 1);  // A
  CHECK(cudnn_probe().plans_made == plans + 1);
}

TEST_CASE("engines: one whose plan is refused is passed over") {
  Fixture f;
  cudnn_probe().refused = {3};
  const Problem p(4, 6, 14);
  p.check(p.forward());
  CHECK(cudnn_probe().last_engine() == 4);
}

TEST_CASE("engines: one that fails when it runs is dropped, and its error is not seen again") {
  Fixture f;
  const Problem p(4, 6, 15);
  p.check(p.forward());
  cudnn_probe().failing = {3};
  p.check(p.forward());
  CHECK(cudnn_probe().last_engine() == 4);
  CHECK(cudaGetLastError() == cudaSuccess);
  cudnn_probe().failing.clear();
  p.forward();
  CHECK(cudnn_probe().last_engine() == 4);  // it is not tried again
}

// Else: plan_life_test.cpp.
TEST_CASE("engines: one that is dropped while its work is queued keeps its plan") {
  Fixture f;
  const Problem p(2, 2, 40);
  const EmulatedCount lost = lost_plans();
  const Tensor y = p.forward();
  cudnn_probe().failing = {3};
  p.forward();
  CHECK(cudnn_probe().last_engine() == 4);
  cuda::synchronize(kGpu);
  CHECK(lost_plans() == lost);
  p.check(y);
}

TEST_CASE("engines: with none left our own kernel computes, and says so once") {
  Fixture f;
  cudnn_probe().refused = {0, 3, 4, 7};
  const Problem p(4, 6, 16);
  const uint64_t heuristics = cudnn_probe().heuristics;
  for (int i = 0; i < 3; ++i) p.check(p.forward());
  CHECK(cudnn_probe().executions.empty());
  CHECK(cudnn_probe().heuristics == heuristics + 3);  // A, B, the fall-back
  const size_t first = f.logged.find("conv2d: cuDNN does not compute this");
  CHECK(first != std::string::npos);
  CHECK(f.logged.find("conv2d: cuDNN", first + 1) == std::string::npos);
  CHECK(f.logged.find("4,16,16") != std::string::npos);  // names the sizes
}

TEST_CASE("engines: a failure that passes sends one call to our own kernel, not the next") {
  Fixture f;
  const Problem p(4, 6, 23);
  for (int i = 0; i < 2; ++i) {
    const ArmedFault fault(cudnn_probe().execution_fault, 1, 3);  // engines 3, 4 and 0
    p.check(p.forward());
    CHECK(cudnn_probe().executions.empty());
  }
  p.check(p.forward());
  CHECK(cudnn_probe().last_engine() == 3);
  const size_t first = f.logged.find("conv2d: cuDNN does not compute this");
  CHECK(first != std::string::npos);
  CHECK(f.logged.find("conv2d: cuDNN", first + 1) == std::string::npos);
}

TEST_CASE("engines: a key whose plans always fail is seldom tried, and found working again") {
  Fixture f;
  const Problem p(2, 3, 4);  // small: our own kernel computes most calls
  cudnn_probe().failing = {0, 3, 4, 7};
  const uint64_t heuristics = cudnn_probe().heuristics;
  for (int i = 0; i < 100; ++i) p.forward();
  CHECK(cudnn_probe().heuristics <= heuristics + 2 * 8);  // at calls 1, 2, 3, 5, 9, 17, 33, 65
  CHECK(cudnn_probe().executions.empty());
  p.check(p.forward());
  const size_t first = f.logged.find("conv2d: cuDNN does not compute this");
  CHECK(first != std::string::npos);
  CHECK(f.logged.find("conv2d: cuDNN", first + 1) == std::string::npos);
  cudnn_probe().failing.clear();
  int calls = 0;
  while (cudnn_probe().executions.empty() && calls < 100) {
    p.forward();
    ++calls;
  }
  CHECK(calls < 64);
  cudnn_probe().executions.clear();
  p.check(p.forward());
  CHECK(cudnn_probe().last_engine() == 3);
}

TEST_CASE("engines: calls with the same memory describe it to cuDNN once") {
  Fixture f;
  const Problem p(4, 6, 26);
  const Tensor x = Problem::on_gpu(p.x), w = Problem::on_gpu(p.w).contiguous(kChannelsLast);
  const auto descriptors = [&](const Tensor& input) {
    cudnn_probe().descriptor_fault.count();
    cuda::conv2d_forward(p.g, input, w, {});
    return cudnn_probe().descriptor_fault.calls();
  };
  CHECK(descriptors(x) > 1);
  CHECK(descriptors(x) == 0);
  std::vector<Tensor> others;
  for (int i = 0; i < 10; ++i) others.push_back(x.clone());
  for (const Tensor& other : others) CHECK(descriptors(other) == 1);
  CHECK(descriptors(others.back()) == 0);
  const size_t alive = cudnn_probe().descriptors;
  for (const Tensor& other : others) descriptors(other);
  CHECK(cudnn_probe().descriptors == alive);
  p.check(cuda::conv2d_forward(p.g, others[0], w, {}));
}

TEST_CASE("engines: where the driver has little memory left the cache is emptied for cuDNN") {
  Fixture f;
  const Problem p(4, 6, 24);
  const Tensor x = Problem::on_gpu(p.x), w = Problem::on_gpu(p.w);
  { const Tensor cached = empty({64 << 20}, {.device = kGpu}); }
  size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  void* others = nullptr;  // of another process, say
  REQUIRE(cudaMalloc(&others, free - (100 << 20)) == cudaSuccess);
  const size_t reserved = cuda::memory_reserved(kGpu);
  Tensor y;
  {
    const ArmedFault fault(cudnn_probe().execution_fault, 1, 3);
    y = cuda::conv2d_forward(p.g, x, w, {});
  }
  CHECK(cuda::memory_reserved(kGpu) < reserved);
  CHECK(cudaFree(others) == cudaSuccess);
  CHECK(cudnn_probe().last_engine() == 3);
  CHECK(f.logged.find("conv2d: cuDNN") == std::string::npos);
  p.check(y);
}

TEST_CASE("engines: the bias is added in the same kernel, or after it where none does") {
  Fixture f;
  const Problem p(4, 6, 17);
  const Tensor bias = rand({6});
  p.check(p.forward(bias), bias);
  CHECK(cudnn_probe().executions.back().uids.size() == 4);
  cudnn_probe().fuses = false;
  const Problem q(4, 6, 18);
  q.check(q.forward(bias), bias);
  CHECK(cudnn_probe().executions.back().uids.size() == 3);
}

TEST_CASE("engines: with too little memory for a workspace one that needs less runs") {
  Fixture f;
  const Problem p(4, 6, 19);
  const Tensor x = Problem::on_gpu(p.x), w = Problem::on_gpu(p.w);
  const int64_t before = cudnn::workspace_limit();
  cudnn::set_workspace_limit(100);
  const Tensor y = cuda::conv2d_forward(p.g, x, w, {});
  cudnn::set_workspace_limit(before);
  p.check(y);
  CHECK(cudnn_probe().last_engine() == 0);
}

TEST_CASE("engines: work is queued on the current stream, its workspace too") {
  Fixture f;
  const Problem p(4, 6, 20);
  const OwnedStream stream(kGpu);
  {
    const StreamScope on(stream);
    p.check(p.forward());
    CHECK(static_cast<void*>(cudnn_probe().executions.back().stream) == stream.get().native);
  }
  p.check(p.forward());
  CHECK(cudnn_probe().executions.back().stream == nullptr);
}

TEST_CASE("engines: each thread has a handle and plans of its own; handles are taken over") {
  Fixture f;
  const Problem p(4, 6, 21);
  p.check(p.forward());
  const size_t plans = cudnn_probe().plans;
  std::thread([&] { p.check(p.forward()); }).join();
  CHECK(cudnn_probe().plans == plans + 1);  // which stays for a while: plan_life_test.cpp
  const size_t handles = cudnn_probe().handles;
  std::thread([&] { p.check(p.forward()); }).join();
  CHECK(cudnn_probe().handles == handles);
}

TEST_CASE("engines: a handle that could not be told its stream is told again") {
  Fixture f;
  const Problem p(4, 6, 22);
  std::thread([&] {
    const OwnedStream stream(kGpu);
    const StreamScope on(stream);
    p.check(p.forward());
  }).join();
  std::thread([&] {  // takes over that handle, whose stream is gone
    {
      const ArmedFault fault(cudnn_probe().stream_fault, 1);
      CHECK_THROWS_AS(cudnn::handle(kGpu), CudaError);
    }
    p.check(p.forward());
    CHECK(cudnn_probe().executions.back().stream == nullptr);
  })
      .join();
}

TEST_CASE("engines: wherever memory for a descriptor is missing, the result is right") {
  for (int64_t n = 1; n < 120; ++n) {
    Fixture f;
    const Problem p(4, 6, 30 + n);
    const Tensor x = Problem::on_gpu(p.x), w = Problem::on_gpu(p.w);
    const ArmedFault fault(cudnn_probe().descriptor_fault, n);
    Tensor y = cuda::conv2d_forward(p.g, x, w, {});
    if (cudnn_probe().descriptor_fault.calls() < n) break;
    cudnn_probe().descriptor_fault.disarm();
    if (n % 5 == 1) p.check(y);
  }
}
