// Choosing an engine: filtering, timing, and what follows a failure. Contracts: conv_choice.h.
#include "lathe/ops/conv/search/conv_choice.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "lathe/core/error.h"

namespace lathe {

namespace {

constexpr int kRuns = 3;                             // of a measurement
constexpr int kMeasurements = 3;                     // after a run that is not measured
constexpr int kMeasurementsBeforeStop = 2;           // because a single one may have been disturbed
constexpr double kClearlySlower = 1.5;               // than the fastest: not worth all measurements
constexpr int64_t kFinalists = 5;                    // that are timed again
constexpr int kMeasurementsAgain = 5;                // of each of them
constexpr int64_t kMaxWorkspace = int64_t{1} << 40;  // larger numbers are a mistake of the library
constexpr std::string_view kOutcomes[] = {"timed",    "ready",     "untried",
                                          "filtered", "too_large", "failed"};

double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Adds the engine, with the reason if it cannot be used, unless it is there already.
void add_engine(const ConvKey& key, ConvChoice& choice, ConvEngineInfo info) {
  const bool listed = std::ranges::any_of(choice.engines, [&](const ConvEngineResult& result) {
    return result.info.engine == info.engine;
  });
  if (listed) return;
  ConvEngineResult& result = choice.engines.emplace_back();
  result.note = refusal(key, info);
  if (!result.note.empty()) result.outcome = ConvOutcome::kFiltered;
  result.info = std::move(info);
}

/// One search in progress.
class Chooser {
 public:
  Chooser(const ConvKey& key, ConvEngines& engines, const ConvLimits& limits,
          const ConvClock& now_ms)
      : key_(key), engines_(engines), limits_(limits), now_ms_(now_ms), began_ms_(now_ms()) {}

  ConvChoice choose(bool timed) {
    using enum ConvHeuristic;
    using Rounds = std::vector<std::vector<ConvHeuristic>>;
    for (const auto& heuristics :
         timed ? Rounds{{kA, kB}, {kFallback}} : Rounds{{kA}, {kB}, {kFallback}}) {
      collect(heuristics);
      choice_.has_fallback = heuristics.front() == kFallback;
      limit_workspace();
      if (timed) {
        time_all();
      } else {
        find_ready();
      }
      const auto& engines = choice_.engines;
      const auto taken = std::ranges::find_if(engines, [](const ConvEngineResult& result) {
        return result.outcome <= ConvOutcome::kReady;
      });
      if (taken == engines.end()) continue;
      choice_.chosen = static_cast<size_t>(taken - engines.begin());
      choice_.search_ms = now_ms_() - began_ms_;
      return std::move(choice_);
    }
    fail_without_engine(key_, choice_);
  }

 private:
  /// Adds what the heuristics suggest, by turns. Those with tensor cores come first where these may
  /// compute the key: the library may begin with one without them that needs much memory, 358 MB
  /// for a convolution of ResNet-18.
  void collect(const std::vector<ConvHeuristic>& heuristics) {
    std::vector<std::vector<ConvEngineInfo>> lists;
    size_t longest = 0;
    for (const ConvHeuristic heuristic : heuristics) {
      longest = std::max(longest, lists.emplace_back(engines_.suggested(heuristic)).size());
    }
    const auto known = std::ssize(choice_.engines);
    for (size_t i = 0; i < longest; ++i) {
      for (auto& list : lists) {
        if (i < list.size()) add_engine(key_, choice_, std::move(list[i]));
      }
    }
    if (is_half(key_.x.dtype) || key_.tf32) {
      std::stable_partition(
          choice_.engines.begin() + known, choice_.engines.end(),
          [](const ConvEngineResult& result) { return result.info.tensor_cores; });
    }
  }

  /// Sets the workspace that this search allows. In deterministic mode free memory does not count:
  /// it must not change the choice, and freeing cached blocks may still make room.
  void limit_workspace() {
    limit_bytes_ = key_.workspace_limit_bytes;
    if (!key_.deterministic()) {
      int64_t least = kMaxWorkspace;
      for (const ConvEngineResult& result : choice_.engines) {
        if (result.usable()) least = std::min(least, result.info.workspace_bytes);
      }
      limit_bytes_ = std::min(limit_bytes_, std::max(least, engines_.available_bytes()));
    }
    for (ConvEngineResult& result : choice_.engines) fits(result);
  }

  /// True if the engine's workspace is allowed; otherwise the engine notes why not.
  bool fits(ConvEngineResult& result) {
    if (!result.usable()) return false;
    const int64_t bytes = result.info.workspace_bytes;
    if (bytes <= limit_bytes_) return true;
    result.outcome = ConvOutcome::kTooLarge;
    result.note =
        concat("needs more workspace than ", readable_bytes(static_cast<uint64_t>(limit_bytes_)));
    if (bytes <= key_.workspace_limit_bytes)
      choice_.provisional = true;  // at another time there may be more memory
    return false;
  }

  /// Runs f on an engine; an exception of f becomes the engine's outcome.
  template <class F>
  void attempt(ConvEngineResult& result, F f) {
    try {
      f();
    } catch (const OutOfMemoryError& error) {
      if (key_.deterministic()) throw;  // lack of memory must not choose another engine
      choice_.provisional = true;
      result.note = error.message();
      const int64_t bytes = result.info.workspace_bytes;
      // Without a workspace, only the scratch memory for timing did not fit: it may still be run.
      if (result.outcome <= ConvOutcome::kReady && bytes == 0) return;
      result.outcome = ConvOutcome::kTooLarge;
      limit_bytes_ = std::min(limit_bytes_, bytes) / 2;
      for (ConvEngineResult& other : choice_.engines) fits(other);
    } catch (const CudaError& error) {
      result.outcome = ConvOutcome::kFailed;
      result.note = error.message();
    }
  }

  void prepare(ConvEngineResult& result) {
    result.info.workspace_bytes = engines_.prepare(result.info.engine);
    result.note = refusal(key_, result.info);
    if (!result.note.empty()) {
      result.outcome = ConvOutcome::kFiltered;
    } else if (fits(result)) {
      result.outcome = ConvOutcome::kReady;
    }
  }

  void find_ready() {
    for (ConvEngineResult& result : choice_.engines) {
      if (!result.usable()) continue;
      attempt(result, [&] { prepare(result); });
      if (result.outcome == ConvOutcome::kReady) return;
    }
  }

  void time_all() {
    std::map<int64_t, int64_t> timed;  // settings per engine
    std::optional<int64_t> first;      // engine that a heuristic named
    for (ConvEngineResult& result : choice_.engines) {
      if (!result.usable()) continue;
      const int64_t engine = result.info.engine.index;
      if (!first) first = engine;
      int64_t& of_this = timed[engine];
      result.note = best_ms_ < 0 ? ""
                                 : reason_to_skip(of_this, engine == *first ? limits_.of_first
                                                                            : limits_.per_engine);
      if (!result.note.empty()) continue;
      attempt(result, [&] {
        prepare(result);
        if (result.outcome != ConvOutcome::kReady) return;
        ++of_this;
        time(result);
      });
    }
    sort_by_time(choice_.engines);
    time_fastest_again();
  }

  /// Why a setting is not tried, of whose engine so many are timed; "" if it may be.
  std::string reason_to_skip(int64_t timed_of_engine, int64_t limit) {
    if (key_.fusion == ConvFusion::kNone && limit > 0 && timed_of_engine >= limit)
      return concat("only ", limit, " settings of this engine are timed");
    if (limits_.ms <= 0 || measured_ms_ < limits_.ms) return "";
    choice_.provisional = true;
    return concat("engines are timed for at most ", limits_.ms, " ms");
  }

  /// Measurements of one engine.
  struct Times {
    std::vector<double> ms;
    int runs = 0;
  };

  void measure(const ConvEngine& engine, Times& times) {
    const ConvTime time = engines_.time(engine, kRuns);
    LATHE_CHECK(CudaError, time.ms >= 0 && time.runs >= 0, "conv2d: ", time.runs,
                " runs were timed with ", time.ms, " ms each");
    measured_ms_ += time.runs * time.ms;
    times.ms.push_back(time.ms);
    times.runs += time.runs;
  }

  void time(ConvEngineResult& result) {
    const ConvEngine& engine = result.info.engine;
    engines_.time(engine, 1);  // warm-up: loads the code, raises the clocks
    Times times;
    bool slow = false;
    while (std::ssize(times.ms) < kMeasurements && !slow) {
      measure(engine, times);
      slow = best_ms_ >= 0 && std::ssize(times.ms) >= kMeasurementsBeforeStop &&
             std::ranges::min(times.ms) > kClearlySlower * best_ms_;
    }
    set_time(result, times);
    if (best_ms_ < 0 || result.ms < best_ms_) best_ms_ = result.ms;
  }

  /// Among dozens of settings one may only seem fast. So the first engines, sorted by time, are
  /// timed again: by turns, so that what disturbs one disturbs all.
  void time_fastest_again() {
    const double before_ms = measured_ms_;
    const auto close = [&](const ConvEngineResult& result) {
      return result.outcome == ConvOutcome::kTimed && result.ms <= kClearlySlower * best_ms_;
    };
    std::span<ConvEngineResult> fastest = choice_.engines;
    fastest = fastest.first(
        static_cast<size_t>(std::min(kFinalists, std::ranges::count_if(fastest, close))));
    if (fastest.size() < 2) return;
    std::vector<Times> times(fastest.size());
    for (int i = 0; i < kMeasurementsAgain; ++i) {
      for (size_t at = 0; at < fastest.size(); ++at) {
        ConvEngineResult& result = fastest[at];
        if (result.outcome != ConvOutcome::kTimed) continue;
        if (limits_.ms > 0 && measured_ms_ - before_ms >= limits_.ms) break;
        attempt(result, [&] { measure(result.info.engine, times[at]); });
      }
    }
    for (size_t at = 0; at < fastest.size(); ++at) {
      if (fastest[at].outcome == ConvOutcome::kTimed && !times[at].ms.empty())
        set_time(fastest[at], times[at]);
    }
    sort_by_time(fastest);
  }

  static void set_time(ConvEngineResult& result, const Times& times) {
    result.outcome = ConvOutcome::kTimed;
    result.ms = lower_median(times.ms);
    result.runs = times.runs;
  }

  /// Timed ones first.
  static void sort_by_time(std::span<ConvEngineResult> engines) {
    std::stable_sort(engines.begin(), engines.end(),
                     [](const ConvEngineResult& a, const ConvEngineResult& b) {
                       const bool timed_a = a.outcome == ConvOutcome::kTimed,
                                  timed_b = b.outcome == ConvOutcome::kTimed;
                       return timed_a && timed_b ? a.ms < b.ms : timed_a && !timed_b;
                     });
  }

  const ConvKey& key_;
  ConvEngines& engines_;
  const ConvLimits& limits_;
  const ConvClock& now_ms_;
  const double began_ms_;
  int64_t limit_bytes_ = 0;
  double best_ms_ = -1;     // the fastest time so far; -1: none
  double measured_ms_ = 0;  // of all measured runs
  ConvChoice choice_;
};

}  // namespace

std::string_view name_of(ConvOutcome outcome) { return kOutcomes[static_cast<size_t>(outcome)]; }

ConvOutcome conv_outcome_from_name(std::string_view name) {
  const auto at = std::find(std::begin(kOutcomes), std::end(kOutcomes), name);
  LATHE_CHECK(DataError, at != std::end(kOutcomes), "convolution engine: no outcome is called \"",
              name, "\"");
  return static_cast<ConvOutcome>(at - std::begin(kOutcomes));
}

std::string refusal(const ConvKey& key, const ConvEngineInfo& info) {
  if (key.deterministic() && !info.deterministic) return "not deterministic";
  if (info.down_converts) return "computes in a narrower dtype than its tensors have";
  if (info.narrow_sums) return concat("adds up in a narrower dtype than ", key.compute);
  if (info.tensor_cores && key.x.dtype == kF32 && !key.tf32)
    return "uses tensor cores on f32, and TF32 is off";
  if (info.workspace_bytes < 0 || info.workspace_bytes > kMaxWorkspace)
    return concat("names an impossible workspace of ", info.workspace_bytes, " bytes");
  return "";
}

ConvChoice without_chosen(ConvChoice choice, bool out_of_memory, const std::string& why) {
  ConvEngineResult& failed = choice.engines[choice.chosen];
  failed.outcome = out_of_memory ? ConvOutcome::kTooLarge : ConvOutcome::kFailed;
  failed.note = why;
  choice.provisional = true;
  const int64_t limit = out_of_memory ? failed.info.workspace_bytes / 2 : kMaxWorkspace;
  const auto next = std::find_if(
      choice.engines.begin(), choice.engines.end(),
      [&](const ConvEngineResult& t) { return t.usable() && t.info.workspace_bytes <= limit; });
  choice.chosen = static_cast<size_t>(next - choice.engines.begin());
  return choice;
}

ConvChoice with_fallback(const ConvKey& key, ConvEngines& engines, ConvChoice choice,
                         int64_t workspace_limit_bytes) {
  const auto known = std::ssize(choice.engines);
  choice.has_fallback = true;
  for (ConvEngineInfo& info : engines.suggested(ConvHeuristic::kFallback)) {
    add_engine(key, choice, std::move(info));
  }
  const int64_t limit = std::min(key.workspace_limit_bytes, workspace_limit_bytes);
  const auto next = std::find_if(
      choice.engines.begin() + known, choice.engines.end(),
      [&](const ConvEngineResult& t) { return t.usable() && t.info.workspace_bytes <= limit; });
  choice.chosen = static_cast<size_t>(next - choice.engines.begin());
  return choice;
}

void fail_without_engine(const ConvKey& key, const ConvChoice& choice) {
  size_t counts[std::size(kOutcomes)] = {};
  std::string reasons;
  for (const ConvEngineResult& result : choice.engines) {
    ++counts[static_cast<size_t>(result.outcome)];
    if (result.usable()) continue;
    reasons += concat("\n  engine ", result.info.engine, ": ", result.note);
  }
  const auto count = [&](ConvOutcome outcome) { return counts[static_cast<size_t>(outcome)]; };
  const std::string text =
      concat("conv2d: none of ", choice.engines.size(), " engines can be used (",
             count(ConvOutcome::kFiltered), " filtered, ", count(ConvOutcome::kTooLarge),
             " too large, ", count(ConvOutcome::kFailed), " failed) for ", key, reasons);
  // In deterministic mode the workspaces exceed the key's limit, whatever memory is free.
  if (!key.deterministic() && count(ConvOutcome::kTooLarge) > 0 && count(ConvOutcome::kFailed) == 0)
    LATHE_FAIL(OutOfMemoryError, text);
  LATHE_FAIL(CudaError, text);
}

ConvChoice choose_engine(const ConvKey& key, ConvEngines& engines, const ConvLimits& limits,
                         const ConvClock& now_ms, bool may_time) {
  return Chooser(key, engines, limits, now_ms).choose(may_time && key.mode == ConvMode::kBenchmark);
}

}  // namespace lathe
