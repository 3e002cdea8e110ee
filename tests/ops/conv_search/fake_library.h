// A library of convolution engines that compute nothing: each takes the time, needs the workspace
// and fails where the test says so. The time is the test's own, so that nothing waits.
#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/ops/conv/search/conv_engines.h"
#include "lathe/ops/conv/search/conv_key.h"
#include "lathe/ops/conv/search/conv_search.h"

namespace lathe {

/// An engine: what it claims, and what it really does.
struct FakeEngine {
  ConvEngineInfo info;
  double ms = 1;               // per run
  std::vector<double> run_ms;  // of the first runs, where they differ
  double prepare_ms = 0;
  int64_t real_workspace_bytes = -1;  // what prepare returns; -1: as claimed
  std::string refuses_to_prepare, fails_when_timed, fails_when_executed;  // why; "": it does not
  bool lacks_memory = false;                                              // to be made ready
  int most_runs = INT_MAX;                                                // of a measurement
  ConvHeuristic heuristic = ConvHeuristic::kA;                            // that suggests it
};

/// An engine with this index and time.
FakeEngine fake_engine(int64_t index, double ms, int64_t workspace_bytes = 0);

/// The engines and what was asked of them, by all threads together.
struct FakeLibrary {
  std::vector<FakeEngine> engines;
  int64_t memory_bytes = INT64_MAX;     // allocating more is an OutOfMemoryError
  int64_t available_bytes = INT64_MAX;  // what available_bytes() claims
  bool capturing = false;
  std::function<void()> when_listed = {};  // called for heuristic A

  std::atomic<double> now_ms{1000};          // goes on while engines are made ready and run
  std::atomic<int> lists{0}, more_lists{0};  // of heuristic A, of the others
  std::atomic<int> prepares{0}, timed_runs{0}, executes{0};
  std::atomic<int64_t> last_executed{-1};

  const FakeEngine& engine(const ConvEngine& name) const;
  ConvClock clock() {
    return [this] { return now_ms.load(); };
  }
};

/// One call.
class FakeEngines final : public ConvEngines {
 public:
  explicit FakeEngines(FakeLibrary& library) : library_(library) {}

  std::vector<ConvEngineInfo> suggested(ConvHeuristic heuristic) override;
  int64_t prepare(const ConvEngine& engine) override;
  ConvTime time(const ConvEngine& engine, int runs) override;
  void execute(const ConvEngine& engine) override;
  int64_t available_bytes() override { return library_.available_bytes; }
  bool capturing() override { return library_.capturing; }

 private:
  void allocate(const FakeEngine& engine) const;

  FakeLibrary& library_;
  std::map<ConvEngine, size_t> runs_;  // so far
};

/// The backward-weight pass of a ResNet block in f16, NHWC; `mode` chooses the search.
ConvKey example_key(ConvMode mode = ConvMode::kBenchmark);
/// n keys that differ.
std::vector<ConvKey> example_keys(int n);

/// f changes the key's machine.
template <class F>
void change_machine(ConvKey& key, F f) {
  ConvMachine machine = *key.machine;
  f(machine);
  key.machine = std::move(machine);
}

/// Computes one convolution.   → the engine that ran
int64_t run(ConvSearch& search, FakeLibrary& library, const ConvKey& key);

/// Chooses with the library's clock.
ConvChoice choose(FakeLibrary& library, const ConvKey& key, const ConvLimits& limits = {});

/// The indices of the engines, as the choice lists them.
std::vector<int64_t> order(const ConvChoice& choice);
/// What the choice says of an engine. Fails the test if it lists none of this index.
const ConvEngineResult& result_of(const ConvChoice& choice, int64_t index);
/// The index of the engine that was chosen.
int64_t chosen(const ConvChoice& choice);

}  // namespace lathe
