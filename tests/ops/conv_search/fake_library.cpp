#include "fake_library.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "lathe/core/error.h"

namespace lathe {

namespace {

void fail_if(const std::string& why) {
  if (!why.empty()) LATHE_FAIL(CudaError, why);
}

}  // namespace

FakeEngine fake_engine(int64_t index, double ms, int64_t workspace_bytes) {
  return {.info = {.engine = {.index = index}, .workspace_bytes = workspace_bytes}, .ms = ms};
}

const FakeEngine& FakeLibrary::engine(const ConvEngine& name) const {
  const auto at = std::find_if(engines.begin(), engines.end(), [&](const FakeEngine& engine) {
    return engine.info.engine == name;
  });
  LATHE_CHECK(CudaError, at != engines.end(), "the library has no engine ", name);
  return *at;
}

std::vector<ConvEngineInfo> FakeEngines::suggested(ConvHeuristic heuristic) {
  const bool first = heuristic == ConvHeuristic::kA;
  ++(first ? library_.lists : library_.more_lists);
  if (first && library_.when_listed) library_.when_listed();
  std::vector<ConvEngineInfo> suggested;
  for (const FakeEngine& engine : library_.engines) {
    if (engine.heuristic == heuristic) suggested.push_back(engine.info);
  }
  return suggested;
}

int64_t FakeEngines::prepare(const ConvEngine& name) {
  ++library_.prepares;
  const FakeEngine& engine = library_.engine(name);
  library_.now_ms = library_.now_ms + engine.prepare_ms;
  fail_if(engine.refuses_to_prepare);
  LATHE_CHECK(OutOfMemoryError, !engine.lacks_memory, "no memory for a plan");
  return engine.real_workspace_bytes >= 0 ? engine.real_workspace_bytes
                                          : engine.info.workspace_bytes;
}

void FakeEngines::allocate(const FakeEngine& engine) const {
  const int64_t bytes = engine.info.workspace_bytes;
  LATHE_CHECK(OutOfMemoryError, bytes <= library_.memory_bytes, "no ", bytes, " bytes are free");
}

ConvTime FakeEngines::time(const ConvEngine& name, int wanted) {
  const FakeEngine& engine = library_.engine(name);
  const int runs = std::min(wanted, engine.most_runs);
  allocate(engine);
  fail_if(engine.fails_when_timed);
  double above_ms = 0;  // engine.ms, all runs together; so the mean of equal times is exact
  for (int i = 0; i < runs; ++i) {
    const size_t run = runs_[name]++;
    if (run < engine.run_ms.size()) above_ms += engine.run_ms[run] - engine.ms;
  }
  library_.timed_runs += runs;
  library_.now_ms = library_.now_ms + runs * engine.ms + above_ms;
  return {runs == 0 ? engine.ms : engine.ms + above_ms / runs, runs};
}

void FakeEngines::execute(const ConvEngine& name) {
  const FakeEngine& engine = library_.engine(name);
  allocate(engine);
  fail_if(engine.fails_when_executed);
  ++library_.executes;
  library_.last_executed = name.index;
}

ConvKey example_key(ConvMode mode) {
  const auto nhwc = [](std::array<int64_t, 4> d) {
    return ConvTensor{
        .dtype = kF16,
        .dims = d,
        .strides = {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]},
        .alignment = 16,
    };
  };
  return {.pass = ConvPass::kBackwardWeight,
          .mode = mode,
          .x = nhwc({128, 64, 32, 32}),
          .w = nhwc({64, 64, 3, 3}),
          .y = nhwc({128, 64, 32, 32}),
          .pad = {1, 1},
          .workspace_limit_bytes = 1 << 30,
          .machine = ConvMachine{.device = "NVIDIA H200",
                                 .major = 9,
                                 .minor = 0,
                                 .multiprocessors = 132,
                                 .library = "cudnn 9.19.0",
                                 .runtime = "13.0",
                                 .driver = "13.0"}};
}

std::vector<ConvKey> example_keys(int n) {
  std::vector<ConvKey> keys;
  for (int i = 0; i < n; ++i) {
    keys.push_back(example_key());
    keys.back().x.dims[0] = i + 1;
  }
  return keys;
}

int64_t run(ConvSearch& search, FakeLibrary& library, const ConvKey& key) {
  FakeEngines engines(library);
  search.run(key, engines);
  return library.last_executed;
}

ConvChoice choose(FakeLibrary& library, const ConvKey& key, const ConvLimits& limits) {
  FakeEngines engines(library);
  return choose_engine(key, engines, limits, library.clock(), true);
}

std::vector<int64_t> order(const ConvChoice& choice) {
  std::vector<int64_t> indices;
  for (const ConvEngineResult& result : choice.engines) indices.push_back(result.info.engine.index);
  return indices;
}

const ConvEngineResult& result_of(const ConvChoice& choice, int64_t index) {
  for (const ConvEngineResult& result : choice.engines) {
    if (result.info.engine.index == index) return result;
  }
  FAIL("no engine ", index);
  return choice.engines[0];
}

int64_t chosen(const ConvChoice& choice) { return choice.info().engine.index; }

}  // namespace lathe
