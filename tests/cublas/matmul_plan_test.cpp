// How matrix products use cuBLASLt, over the emulated one: which algorithm runs, with what memory,
// and what becomes of its failures.
#include <array>
#include <string>
#include <thread>
#include <vector>

#include "../count_calls.h"
#include "../cuda_case.h"
#include "../ops/compare.h"
#include "../same_memory.h"
#include "fixture.h"
#include "lathe/core/cuda.h"
#include "lathe/core/gpu/cublas_handle.h"
#include "lathe/core/math_mode.h"
#include "lathe/core/stream.h"
#include "lathe/ops/matmul.h"
#include "lathe/tests/emulation/cublas_emulation.h"

using namespace lathe;
using namespace lathe::test;
using emulation::cublas_probe;

namespace {

/// A product of its own sizes for each case: plans stay.
struct Product {
  Product(int64_t rows, int64_t terms, int64_t cols, DType dtype = kF32)
      : a(randn({rows, terms}, {.dtype = dtype})), b(randn({terms, cols}, {.dtype = dtype})) {}

  void check() const {
    const Tensor got = cuda::matmul(a.to(kGpu), b.to(kGpu));
    const double tol = a.dtype() == kF32 ? kDeviceTolerance : tolerance_of(a.dtype());
    CHECK(difference(got.cpu(), cpu::matmul(a, b), tol) == "");
  }

  Tensor a, b;
};

}  // namespace

TEST_CASE("cublas: sums stay wide, and the workspace comes from the allocator and goes back") {
  Fixture f;
  const size_t before = cuda::memory_allocated(kGpu);
  Product(3, 8, 5, kF16).check();
  CHECK(cublas_probe().algorithm == 21);  // 12, which adds in f16, is left out
  CHECK(cublas_probe().workspace_bytes == 8 * 3 * 5);
  CHECK(cublas_probe().compute == CUBLAS_COMPUTE_32F);
  CHECK(cuda::memory_allocated(kGpu) == before);
}

TEST_CASE("cublas: products that are alike share a plan; each thread has its own") {
  Fixture f;
  const Product p(3, 8, 6);
  p.check();
  const uint64_t asked = cublas_probe().heuristics;
  const size_t descriptors = cublas_probe().descriptors;
  for (int i = 0; i < 3; ++i) p.check();
  CHECK(cublas_probe().heuristics == asked);
  std::thread([&] { p.check(); }).join();
  CHECK(cublas_probe().heuristics == asked + 1);
  CHECK(cublas_probe().descriptors == descriptors);  // the thread's went with it
}

TEST_CASE("cublas: TF32 is asked for where it is on, for f32 alone") {
  Fixture f;
  set_tf32(true);
  cuda::matmul(rand({4, 7}).to(kGpu), rand({7, 4}).to(kGpu));
  CHECK(cublas_probe().compute == CUBLAS_COMPUTE_32F_FAST_TF32);
  Product(4, 7, 4, kF16).check();
  CHECK(cublas_probe().compute == CUBLAS_COMPUTE_32F);
  Product(4, 7, 4, kF64).check();
  CHECK(cublas_probe().compute == CUBLAS_COMPUTE_64F);
}

TEST_CASE("cublas: the bias is added in the same kernel") {
  Fixture f;
  const Tensor x = rand({3, 8}), w = rand({5, 8}), bias = rand({5});
  const uint64_t products = cublas_probe().products;
  const Tensor y = cuda::linear(x.to(kGpu), w.to(kGpu), bias.to(kGpu));
  CHECK(difference(y.cpu(), cpu::linear(x, w, bias), kDeviceTolerance) == "");
  CHECK(cublas_probe().products == products + 1);
  CHECK(cublas_probe().epilogue == CUBLASLT_EPILOGUE_BIAS);
}

TEST_CASE("cublas: a bias at an odd address is copied to one that cuBLAS takes") {
  Fixture f;
  const Tensor x = rand({3, 8}), w = rand({4, 8}), bias = rand({5}).slice(0, 1, 5);
  const uint64_t products = cublas_probe().products;
  const Tensor y = cuda::linear(x.to(kGpu), w.to(kGpu), same_memory_on(kGpu, bias));
  CHECK(difference(y.cpu(), cpu::linear(x, w, bias), kDeviceTolerance) == "");
  CHECK(cublas_probe().products == products + 1);
  CHECK(cublas_probe().epilogue == CUBLASLT_EPILOGUE_BIAS);
}

TEST_CASE("cublas: a bias's gradient comes with that of the weight, in the same kernel") {
  Fixture f;
  // Sizes of their own: what cuBLAS refused stays refused.
  const auto check = [](int64_t in) {
    const Tensor dy = rand({9, 5}), x = rand({9, in});
    const uint64_t launches = cuda::counters().launches;
    const LinearParamGrads got = cuda::linear_param_grads(dy.to(kGpu), x.to(kGpu));
    const bool sums_apart = cuda::counters().launches > launches;
    const LinearParamGrads want = cpu::linear_param_grads(dy, x);
    CHECK(difference(got.dw.cpu(), want.dw, kDeviceTolerance) == "");
    CHECK(difference(got.db.cpu(), want.db, kDeviceTolerance) == "");
    CHECK(sums_apart == (cublas_probe().epilogue == CUBLASLT_EPILOGUE_DEFAULT));
    return !sums_apart;
  };
  CHECK(check(8));
  CHECK(check(8));
  cublas_probe().unknown = {CUBLASLT_EPILOGUE_BGRADB};
  CHECK_FALSE(check(7));
  cublas_probe().unknown.clear();
  set_deterministic(true);
  CHECK_FALSE(check(8));
  CHECK(f.logged.find("BGRAD") == std::string::npos);
}

TEST_CASE("cublas: transposed factors are read in place") {
  Fixture f;
  const Tensor a = rand({8, 3}).to(kGpu), b = rand({5, 8}).to(kGpu);
  cuda::matmul(a.transpose(0, 1), b.transpose(0, 1));
  const uint64_t launches = cuda::counters().launches;
  cuda::matmul(a.transpose(0, 1), b.transpose(0, 1));
  CHECK(cuda::counters().launches == launches);  // none of ours, such as a copy
}

TEST_CASE("cublas: an algorithm that fails is dropped, and its error is not seen again") {
  Fixture f;
  const Product p(3, 8, 7);
  cublas_probe().failing = {21};
  p.check();
  CHECK(cublas_probe().algorithm == 0);
  CHECK(cudaGetLastError() == cudaSuccess);
  cublas_probe().failing.clear();
  p.check();
  CHECK(cublas_probe().algorithm == 0);  // it is not tried again
  CHECK(f.logged.empty());
}

TEST_CASE("cublas: memory that is short takes another algorithm, in deterministic mode none") {
  Fixture f;
  const Tensor a = rand({3, 8}).to(kGpu), b = rand({8, 12}).to(kGpu);
  const auto without_workspace = [&] {
    const ArmedFault fault(cuda::allocation_fault(kGpu), 2, FaultPoint::kForever);
    return cuda::matmul(a, b);
  };
  without_workspace();
  CHECK(cublas_probe().algorithm == 0);
  set_deterministic(true);
  const uint64_t products = cublas_probe().products;
  CHECK_THROWS_AS(without_workspace(), OutOfMemoryError);
  CHECK(cublas_probe().products == products);
  cuda::matmul(a, b);
  CHECK(cublas_probe().algorithm == 21);
}

TEST_CASE("cublas: in deterministic mode a failure is an error, and earlier ones change no bits") {
  Fixture f;
  const Product p(3, 8, 15);
  cublas_probe().failing = {21};
  p.check();
  CHECK(cublas_probe().algorithm == 0);
  set_deterministic(true);
  const uint64_t products = cublas_probe().products;
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_WITH_AS(p.check(), doctest::Contains("f32[3,8]@cuda:0 x f32[8,15]@cuda:0"),
                         CudaError);
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  CHECK(cublas_probe().products == products);
  cublas_probe().failing.clear();
  p.check();
  CHECK(cublas_probe().algorithm == 21);
  CHECK(f.logged.empty());
  cublas_probe().knows_none = true;
  Product(3, 8, 16).check();  // always our own kernel
}

TEST_CASE("cublas: with none left our own kernel computes, and says so once") {
  Fixture f;
  const uint64_t products = cublas_probe().products, asked = cublas_probe().heuristics;
  cublas_probe().knows_none = true;
  const Product p(3, 8, 9);
  for (int i = 0; i < 3; ++i) p.check();
  CHECK(cublas_probe().products == products);
  CHECK(cublas_probe().heuristics == asked + 1);
  const size_t first = f.logged.find("cuBLAS does not compute f32[3,8]@cuda:0 x f32[8,9]@cuda:0");
  CHECK(first != std::string::npos);
  CHECK(f.logged.find("cuBLAS", first + 1) == std::string::npos);
  cublas_probe().knows_none = false;
  cublas_probe().failing = {0, 21};
  Product(3, 8, 10).check();
  CHECK(cublas_probe().products == products);
}

TEST_CASE("cublas: a product that always fails is seldom tried, and found working again") {
  Fixture f;
  cublas_probe().failing = {0, 21};
  const Product p(3, 8, 13);
  const uint64_t failures = cublas_probe().failures;
  for (int i = 0; i < 100; ++i) p.check();
  CHECK(cublas_probe().failures <= failures + 2 * 8);  // at calls 1, 2, 3, 5, 9, 17, 33, 65
  const size_t first = f.logged.find("cuBLAS");
  CHECK(first != std::string::npos);
  CHECK(f.logged.find("cuBLAS", first + 1) == std::string::npos);
  cublas_probe().failing.clear();
  const uint64_t products = cublas_probe().products;
  int calls = 0;
  for (; cublas_probe().products == products && calls < 100; ++calls) p.check();
  CHECK(calls < 64);
  p.check();
  CHECK(cublas_probe().algorithm == 21);
  CHECK(cublas_probe().products == products + 2);
}

TEST_CASE("cublas: one failure of all algorithms is no reason to leave the next call to others") {
  Fixture f;
  cublas_probe().failing = {0, 21};
  const Product p(3, 8, 14);
  p.check();
  cublas_probe().failing.clear();
  p.check();
  CHECK(cublas_probe().algorithm == 21);
}

TEST_CASE("cublas: threads that need the first handle at once get the same one") {
  std::vector<std::thread> threads;
  std::array<cublasLtHandle_t, 8> handles{};
  for (cublasLtHandle_t& handle : handles)
    threads.emplace_back([&] { handle = cublas::handle(kGpu); });
  for (std::thread& thread : threads) thread.join();
  for (const cublasLtHandle_t handle : handles) CHECK(handle == handles[0]);
}

TEST_CASE("cublas: a product that is known takes no lock for its handle") {
  Fixture f;
  const Device device = kGpu;
  cublas::handle(device);
  const CallCount calls = count_calls([&] { cublas::handle(device); });
  CHECK(calls.allocations == 0);
  CHECK(calls.locks == 0);
}

TEST_CASE("cublas: work is queued on the current stream") {
  Fixture f;
  const Product p(3, 8, 11);
  const OwnedStream stream(kGpu);
  {
    const StreamScope on(stream);
    p.check();
    CHECK(static_cast<void*>(cublas_probe().stream) == stream.get().native);
  }
  p.check();
  CHECK(cublas_probe().stream == nullptr);
}
