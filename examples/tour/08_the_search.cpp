// Chapter 8: the search for a convolution's engine, over a library whose engines are made up.
#include <lathe/core/error.h>
#include <lathe/ops/conv/search/conv_search.h>

#include <algorithm>
#include <iostream>
#include <vector>

using lathe::ConvEngine;
using lathe::ConvEngineInfo;

/// An engine: what the library says of it, and what is true.
struct Engine {
  ConvEngineInfo says;
  double ms;
  bool fails = false;
};

/// A library that knows five engines for every convolution, on a clock that only they move.
class Library final : public lathe::ConvEngines {
 public:
  std::vector<Engine> engines = {
      {{.engine = {.index = 0}}, 3.0},
      {{.engine = {.index = 9}, .deterministic = false, .tensor_cores = true}, 1.0},
      {{.engine = {.index = 7}, .tensor_cores = true}, 2.0},
      {{.engine = {.index = 15}, .tensor_cores = true}, 0.5},
      {{.engine = {.index = 12}, .down_converts = true}, 0.1}};
  double now_ms = 0, timed = 0;

  std::vector<ConvEngineInfo> suggested(lathe::ConvHeuristic heuristic) override {
    std::vector<ConvEngineInfo> out;
    for (const Engine& engine : engines)
      if (heuristic == lathe::ConvHeuristic::kA) out.push_back(engine.says);
    return out;
  }
  int64_t prepare(const ConvEngine& engine) override { return find(engine).says.workspace_bytes; }
  lathe::ConvTime time(const ConvEngine& engine, int runs) override {
    timed += runs;
    now_ms += runs * find(engine).ms;
    return {find(engine).ms, runs};
  }
  void execute(const ConvEngine& engine) override {
    LATHE_CHECK(lathe::CudaError, !find(engine).fails, "engine ", engine, " failed");
    std::cout << "  engine " << lathe::concat(engine) << " computes, ";
  }
  int64_t available_bytes() override { return int64_t{1} << 30; }
  bool capturing() override { return false; }

 private:
  const Engine& find(const ConvEngine& name) const {
    return *std::ranges::find_if(engines, [&](const Engine& e) { return e.says.engine == name; });
  }
};

int main() {
  Library library;
  lathe::ConvSearch search(100, [&] { return library.now_ms; });
  lathe::ConvKey key;
  key.x.dtype = key.w.dtype = key.y.dtype = lathe::kF16;
  key.workspace_limit_bytes = 1 << 30;
  const auto run = [&](const char* title, lathe::ConvMode mode) {
    key.mode = mode;
    library.timed = 0;
    std::cout << title << '\n';
    search.run(key, library);
    std::cout << "after " << library.timed << " timed runs\n";
  };
  run("heuristic: the first guess with tensor cores", lathe::ConvMode::kHeuristic);
  run("deterministic: the first that gives the same bits", lathe::ConvMode::kDeterministic);
  run("benchmark: all that may be used are timed", lathe::ConvMode::kBenchmark);
  run("the same key again", lathe::ConvMode::kBenchmark);
  for (const lathe::ConvEngineResult& result : search.find(key)->engines)
    std::cout << "    engine " << lathe::concat(result.info.engine) << ": " << result.ms << " ms, "
              << name_of(result.outcome) << (result.note.empty() ? "" : ", ") << result.note
              << '\n';
  library.engines[3].fails = true;
  run("engine 15 fails from now on", lathe::ConvMode::kBenchmark);
  std::cout << "hits " << search.stats().hits << ", searches " << search.stats().searches
            << ", dropped " << search.stats().dropped << '\n';
}
