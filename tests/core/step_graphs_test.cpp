// StepGraphs: which batches are launched, and what happens if a step cannot be recorded.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "../cuda_case.h"
#include "lathe/core/capture/step_graphs.h"
#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"

using namespace lathe;

namespace {

const Device kGpu(DeviceType::kCUDA);

using cuda::StepGraphs;

/// Batch i has n images and only the value i.
Tensors batch(int64_t n, double i) {
  return {full({n, 3}, i, {.device = kGpu}), full({n}, i, {.dtype = kI64, .device = kGpu})};
}

/// Works that give `factor` · x, its sum and the labels.
StepGraphs::Work times(double factor) {
  return [factor](const Tensors& in) {
    const Tensor y = mul(add(in[0], 0.0), factor);
    return Tensors{sum(y), y, in[1]};
  };
}

}  // namespace

TEST_CASE("step graphs: two batches of a shape are the caller's, the third is recorded" *
          test::cuda_case()) {
  const Tensor weight = zeros({}, {.device = kGpu});
  int called = 0;
  const StepGraphs::Work work = [&](const Tensors& in) {
    ++called;
    const Tensor y = mul(in[0], 2.0);
    const Tensor loss = sum(y);
    weight.add_(loss);
    return Tensors{loss, y, in[1]};
  };
  StepGraphs graphs({});
  std::vector<bool> launched;
  double expected = 0;
  for (const auto& [n, i] : std::vector<std::pair<int64_t, double>>{
           {4, 1}, {2, 2}, {4, 3}, {4, 4}, {2, 5}, {4, 6}, {2, 7}, {4, 8}}) {
    const Tensors in = batch(n, i);
    launched.push_back(graphs.takes({in}, 0, work));
    if (!launched.back()) continue;
    const Tensors& out = graphs.launch({in});
    const double loss = 2.0 * 3.0 * static_cast<double>(n) * i;
    expected += loss;
    CHECK(out[0].item<double>() == loss);
    CHECK(out[2].to(kCPU).to_vector<int64_t>() ==
          std::vector<int64_t>(static_cast<size_t>(n), static_cast<int64_t>(i)));
    CHECK(weight.item<double>() == expected);
  }
  CHECK(launched == std::vector<bool>{false, false, false, true, false, true, true, true});
  CHECK(called == 2);
  CHECK(graphs.recorded() == 2);
  CHECK_FALSE(graphs.has_problem());
}

TEST_CASE("step graphs: a step that cannot be recorded is left to the caller for good" *
          test::cuda_case()) {
  int called = 0;
  const StepGraphs::Work work = [&](const Tensors& in) {
    ++called;
    const Tensor y = mul(in[0], sum(in[0]).item<double>());
    const Tensor loss = sum(y);
    return Tensors{loss, y, in[1]};
  };
  StepGraphs graphs({});
  for (int i = 0; i < 5; ++i) {
    const Tensors in = batch(4, i);
    CHECK_FALSE(graphs.takes({in}, 0, work));
    CHECK(graphs.has_problem() == (i == 2));
    CHECK(graphs.recorded() == 0);
    const std::string problem = graphs.take_problem();
    if (i == 2)
      CHECK(problem.find("item: a step that is captured cannot wait for the GPU") !=
            std::string::npos);
  }
  CHECK(called == 1);
}

TEST_CASE("step graphs: a step that another process cannot record is left to the caller, too" *
          test::cuda_case()) {
  int called = 0;
  const Tensor weight = zeros({}, {.device = kGpu});
  const StepGraphs::Work work = [&](const Tensors& in) {
    ++called;
    const Tensor y = mul(in[0], 2.0);
    const Tensor loss = sum(y);
    weight.add_(loss);
    return Tensors{loss, y, in[1]};
  };
  std::vector<std::string> told;
  std::string answer;
  const StepGraphs::Agree agree = [&](const std::string& problem) {
    told.push_back(problem);
    return answer;
  };
  StepGraphs graphs({});
  const auto takes = [&](int64_t n, const StepGraphs::Work& f) {
    const Tensors in = batch(n, 1);
    return graphs.takes({in}, 0, f, agree);
  };
  answer = "rank 1: it cannot";
  for (int i = 0; i < 5; ++i) CHECK_FALSE(takes(4, work));
  CHECK(told == std::vector<std::string>{""});  // after the recording, and never again
  CHECK(graphs.take_problem() == answer);
  CHECK(called == 1);
  CHECK(graphs.recorded() == 0);
  CHECK(weight.item<double>() == 0);  // nothing has run
  answer = "";
  for (int i = 0; i < 5; ++i) CHECK(takes(2, work) == (i >= 2));
  CHECK(told == std::vector<std::string>{"", ""});
  CHECK(graphs.recorded() == 1);
  const auto waits = [](const Tensors& in) {
    const Tensor loss = mul(in[0], sum(in[0]).item<double>());
    return Tensors{loss};
  };
  answer = "rank 0: this one";
  for (int i = 0; i < 3; ++i) CHECK_FALSE(takes(3, waits));
  CHECK(told.size() == 3);
  CHECK(told.back().find("item: a step that is captured cannot wait for the GPU") !=
        std::string::npos);
  CHECK(graphs.take_problem() == answer);
}

// The steps that are queued instead need it themselves.
TEST_CASE("step graphs: a recording that comes to nothing keeps no memory" * test::cuda_case()) {
  std::string answer = "rank 1: it cannot";
  const StepGraphs::Agree agree = [&](const std::string& problem) {
    return problem.empty() ? answer : problem;
  };
  bool throws = false;
  Tensor left;  // as a gradient is by a backward pass that fails
  const StepGraphs::Work work = [&](const Tensors& in) {
    const Tensor y = mul(in[0], 2.0);
    const Tensor loss = sum(y);
    if (throws) left = y;
    if (throws) LATHE_FAIL(OutOfMemoryError, "no memory");
    return Tensors{loss, y, in[1]};
  };
  StepGraphs graphs({});
  const Tensors some = batch(400'000, 1), others = batch(300'000, 1), good = batch(200'000, 1);
  const auto tries = [&](const Tensors& in) {
    for (int i = 0; i < 2; ++i) CHECK_FALSE(graphs.takes({in, true}, 0, work, agree));
    const bool takes = graphs.takes({in, true}, 0, work, agree);
    left = {};
    if (!takes) graphs.give_pool_back();
    return takes;
  };
  cuda::empty_cache();
  const auto before = cuda::memory_reserved();
  CHECK_FALSE(tries(some));
  CHECK(cuda::memory_reserved() == before);
  throws = true;
  CHECK_FALSE(tries(others));
  CHECK(cuda::memory_reserved() == before);
  throws = false;
  answer = "";
  CHECK(tries(good));
  CHECK(cuda::memory_reserved() > before);
  CHECK(graphs.launch({good, true})[0].item<double>() == 2 * 600'000);
}

TEST_CASE("step graphs: kinds of steps have graphs of their own, in one pool" * test::cuda_case()) {
  const StepGraphs::Work twice = times(2);
  const StepGraphs::Work thrice = times(3);
  StepGraphs graphs({});
  size_t reserved = 0;
  for (int i = 0; i < 6; ++i) {
    const Tensors in = batch(400, i);
    for (const bool evaluates : {false, true}) {
      const bool takes = evaluates ? graphs.takes({in}, 1, thrice) : graphs.takes({in}, 0, twice);
      CHECK(takes == (i >= 2));
      if (!takes) continue;
      CHECK(graphs.launch({in})[0].item<double>() == (evaluates ? 3 : 2) * 1200.0 * i);
      if (i == 2 && !evaluates) reserved = cuda::memory_reserved();
      if (i == 2 && evaluates) CHECK(cuda::memory_reserved() == reserved);
    }
  }
}

TEST_CASE("step graphs: one is not launched while the state has other memory" * test::cuda_case()) {
  const Tensor weight = full({}, 2.0, {.device = kGpu});
  const Tensor other = full({}, 5.0, {.device = kGpu});
  const StepGraphs::Work work = [&](const Tensors& in) {
    const Tensor y = mul(in[0], weight);
    const Tensor loss = sum(y);
    return Tensors{loss, y, in[1]};
  };
  StepGraphs graphs({weight});
  const Tensors in = batch(4, 1);
  for (int i = 0; i < 2; ++i) CHECK_FALSE(graphs.takes({in}, 0, work));
  CHECK(graphs.takes({in}, 0, work));
  const Tensor own = weight.detach();
  weight.set_data(other);
  CHECK_FALSE(graphs.takes({in}, 0, work));
  weight.set_data(own);
  CHECK(graphs.takes({in}, 0, work));
  CHECK(graphs.launch({in})[0].item<double>() == 24);
}

TEST_CASE("step graphs: there is a limit to their number" * test::cuda_case()) {
  const StepGraphs::Work work = times(2);
  StepGraphs graphs({});
  const auto takes = [&](int64_t n) {
    const Tensors in = batch(n, 1);
    return graphs.takes({in}, 0, work);
  };
  constexpr auto kMost = static_cast<int64_t>(StepGraphs::kMostKinds);
  for (int round = 0; round < 3; ++round) {
    for (int64_t n = 1; n <= kMost + 1; ++n) CHECK(takes(n) == (round == 2 && n <= kMost));
  }
}

TEST_CASE("step graphs: batches in places are read there, by a graph for each place" *
          test::cuda_case()) {
  StepGraphs graphs({});
  const StepGraphs::Work work = times(2);
  const Tensors places[] = {batch(4, 0), batch(4, 0), batch(4, 0)};
  const auto takes = [&](size_t place) { return graphs.takes({places[place], true}, 0, work); };
  for (const size_t eager : {0, 1}) CHECK_FALSE(takes(eager));
  for (int i = 0; i < 4; ++i) {
    const Tensors& in = places[i % 2];
    in[0].fill_(static_cast<double>(i));
    CHECK(takes(static_cast<size_t>(i % 2)));
    const Tensors& out = graphs.launch({in, true});
    CHECK(graphs.inputs()[0].raw_data() == in[0].raw_data());
    CHECK(out[0].item<double>() == 24.0 * i);
  }
  CHECK(graphs.recorded() == 2);
  CHECK_FALSE(takes(2));  // there are no more than two
  const Tensors elsewhere = batch(4, 5);
  CHECK_FALSE(graphs.takes({elsewhere}, 0, work));
}

TEST_CASE("step graphs: a batch of another dtype has a graph of its own" * test::cuda_case()) {
  StepGraphs graphs({});
  const StepGraphs::Work work = times(2);
  const Tensors in = batch(4, 1);
  const Tensors half{in[0].to(kF16), in[1]};
  for (int i = 0; i < 2; ++i) CHECK_FALSE(graphs.takes({in}, 0, work));
  CHECK(graphs.takes({in}, 0, work));
  CHECK_FALSE(graphs.takes({half}, 0, work));
  CHECK(graphs.recorded() == 1);
}
