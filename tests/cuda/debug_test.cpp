// Debug scopes on a GPU: hidden waits, bad values, runs that differ. Compiled with line numbers.
#include <cmath>
#include <optional>

#include "../cuda_case.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/hooks/stack.h"
#include "lathe/lathe.h"

namespace program {  // not of the library

using lathe::Tensor;

constexpr int kLineOfItem = __LINE__ + 2;
[[gnu::noinline]] double hidden_item(const Tensor& loss) {
  const double value = loss.item<double>();
  asm volatile("" : : : "memory");  // no tail call
  return value;
}

constexpr int kLineOfLog = __LINE__ + 2;
[[gnu::noinline]] Tensor logarithm(const Tensor& x) {
  const Tensor y = lathe::log(x);
  asm volatile("" : : : "memory");
  return y;
}

}  // namespace program

using namespace lathe;

namespace {

const Device kGpu(DeviceType::kCUDA);

Tensor step(const Tensor& w) {
  const Tensor loss = sum(square(matmul(w, w)));
  loss.backward();
  return loss;
}

}  // namespace

TEST_CASE("sync check on a GPU: a hidden item is found at its line, a step without one is clean" *
          test::cuda_case()) {
  const Tensor w = ones({4, 4}, {.device = kGpu}).requires_grad_();
  step(w);
  debug::SyncCheck check(debug::SyncMode::kCount);
  for (int i = 0; i < 3; ++i) {
    const Tensor loss = step(w);
    if (i > 0) program::hidden_item(loss);
  }
  const auto places = check.places();
  REQUIRE(places.size() == 1);
  CHECK(places[0].op == "item");
  CHECK(places[0].why == "copy to the host");
  CHECK(places[0].count == 2);
  if (!profile::line_reader().empty()) {
    CHECK_MESSAGE(places[0].line == program::kLineOfItem, places[0].call);
    CHECK(places[0].file.ends_with("debug_test.cpp"));
  }
}

TEST_CASE("sync check on a GPU: an error comes before the wait" * test::cuda_case()) {
  const Tensor x = ones({4}, {.device = kGpu});
  const Tensor y = sum(x);
  const debug::SyncCheck check(debug::SyncMode::kError);
  const auto waits = [] { return cuda::counters().synchronizations; };
  const auto before = waits();
  CHECK_THROWS_AS(program::hidden_item(y), debug::SyncError);
  CHECK_THROWS_AS(x.to(kCPU), debug::SyncError);
  CHECK_THROWS_AS(nonzero(x), debug::SyncError);
  CHECK(waits() == before);
  {
    const debug::AllowSync allowed;
    CHECK(y.item<float>() == 4);
  }
  CHECK(waits() == before + 1);
  cuda::synchronize(kGpu);  // asked for
  synchronize(current_stream(kGpu));
  CHECK(waits() == before + 3);
}

TEST_CASE("sync check on a GPU: a warning for each place, once" * test::cuda_case()) {
  const Tensor y = sum(ones({4}, {.device = kGpu}));
  std::vector<std::string> said;
  const LogHandler old =
      set_log_handler([&](LogLevel, std::string_view text) { said.emplace_back(text); });
  {
    const debug::SyncCheck check(debug::SyncMode::kWarn);
    for (int i = 0; i < 3; ++i) program::hidden_item(y);
  }
  set_log_handler(old);
  REQUIRE(said.size() == 1);
  CHECK_MESSAGE(said[0].find("item: the host waits for the GPU here (copy to the host)") == 0,
                said[0]);
}

TEST_CASE("sync check on a GPU: the search for a convolution's engine is meant" *
          test::cuda_case()) {
  const Tensor x = ones({2, 3, 9, 7}, {.device = kGpu}).requires_grad_();
  const Tensor w = ones({4, 3, 3, 3}, {.device = kGpu}).requires_grad_();
  const struct Before {
    const bool benchmark = cudnn::benchmark();
    ~Before() { cudnn::set_benchmark(benchmark); }
  } before;
  cudnn::set_benchmark(true);
  const debug::SyncCheck check(debug::SyncMode::kError);
  CHECK_NOTHROW(sum(conv2d(x, w)).backward());
  CHECK(check.places().empty());
}

TEST_CASE("detect_anomaly on a GPU: forward and backward" * test::cuda_case()) {
  const Tensor x = tensor({1., 2., -1., 4.}).to(kGpu);
  const debug::DetectAnomaly scope;
  const auto found = [](const auto& f) -> std::optional<debug::Anomaly> {
    try {
      f();
    } catch (const debug::AnomalyError& e) {
      return e.anomaly;
    }
    return std::nullopt;
  };
  const auto forward = found([&] { program::logarithm(x); });
  REQUIRE(forward);
  CHECK(forward->op == "log");
  CHECK(forward->bad.index == Dims{2});
  if (!profile::line_reader().empty()) CHECK(forward->line == program::kLineOfLog);
  const Tensor zero = zeros({2}, {.device = kGpu}).requires_grad_();
  const auto backward = found([&] { sum(sqrt(zero)).backward(); });
  REQUIRE(backward);
  CHECK(backward->op == "sqrt");
  CHECK(backward->backward);
}

TEST_CASE("debug scopes on a GPU: off they launch nothing and wait for nothing" *
          test::cuda_case()) {
  const Tensor w = ones({4, 4}, {.device = kGpu}).requires_grad_();
  const auto counted = [&] {
    const cuda::Counters before = cuda::counters();
    step(w);
    const cuda::Counters after = cuda::counters();
    return std::pair(after.launches - before.launches,
                     after.synchronizations - before.synchronizations);
  };
  counted();
  const auto before = counted();
  {
    const debug::DetectAnomaly scope;
    CHECK(counted() != before);
  }
  CHECK(counted() == before);
  const debug::SyncCheck check(debug::SyncMode::kError);
  CHECK(counted() == before);
}

TEST_CASE("check_determinism on a GPU: equal runs, and one that differs" * test::cuda_case()) {
  const Tensor w = ones({4, 4}, {.device = kGpu}).requires_grad_();
  const debug::DeterminismReport same = debug::check_determinism([&] { step(w); });
  CHECK_MESSAGE(same.ok(), same.text());
  double factor = 1;
  const debug::DeterminismReport other =
      debug::check_determinism([&] { relu(mul(w, factor += 1)); });
  REQUIRE(other.difference);
  CHECK(other.difference->op == "mul");
}

TEST_CASE("check_determinism on a GPU: what is captured is not compared" * test::cuda_case()) {
  const Tensor x = ones({4, 4}, {.device = kGpu});
  exp(x);  // so that what the first call makes is there
  const debug::DeterminismReport report = debug::check_determinism([&] {
    cuda::Graph graph(kGpu);
    graph.capture([&] { exp(x); });
    square(x);
  });
  CHECK_MESSAGE(report.ok(), report.text());
  CHECK(report.results == 1);
}
