// Choosing an engine: filtering, timing, and what follows a failure. Contracts: conv_trials.h.
#include "lathe/ops/conv_search/conv_trials.h"

#include <algorithm>
#include <utility>

#include "lathe/core/error.h"

namespace lathe {

namespace {

constexpr int kRuns = 5;                             // timed runs, after one that is not timed
constexpr int kRunsBeforeStop = 2;                   // because a single run may have been disturbed
constexpr double kClearlySlower = 1.5;               // than the fastest so far: not worth kRuns
constexpr int64_t kMaxWorkspace = int64_t{1} << 40;  // larger numbers are a mistake of the library
constexpr std::string_view kOutcomes[] = {"timed",    "ready",     "untried",
                                          "filtered", "too_large", "failed"};

double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// One search in progress.
class Chooser {
 public:
  Chooser(const ConvKey& key, ConvEngines& engines, const ConvLimits& limits,
          const ConvClock& now_ms)
      : key_(key), engines_(engines), limits_(limits), now_ms_(now_ms), began_ms_(now_ms()) {}

  ConvChoice choose(bool timed) {
    collect();
    limit_workspace();
    if (timed) {
      time_all();
    } else {
      find_ready();
    }
    auto& trials = choice_.trials;
    std::stable_sort(trials.begin(), trials.end(), [](const ConvTrial& a, const ConvTrial& b) {
      const bool timed_a = a.outcome == ConvOutcome::kTimed,
                 timed_b = b.outcome == ConvOutcome::kTimed;
      return timed_a && timed_b ? a.ms < b.ms : timed_a && !timed_b;
    });
    const auto taken = std::find_if(trials.begin(), trials.end(), [](const ConvTrial& trial) {
      return trial.outcome <= ConvOutcome::kReady;
    });
    if (taken == trials.end()) fail_without_engine(key_, choice_);
    choice_.chosen = static_cast<size_t>(taken - trials.begin());
    choice_.search_ms = now_ms_() - began_ms_;
    return std::move(choice_);
  }

 private:
  /// Lists every engine once, with the reason if it cannot be used.
  void collect() {
    for (ConvCandidate& candidate : engines_.candidates()) {
      const bool listed = std::any_of(
          choice_.trials.begin(), choice_.trials.end(),
          [&](const ConvTrial& trial) { return trial.candidate.engine == candidate.engine; });
      if (listed) continue;
      ConvTrial& trial = choice_.trials.emplace_back();
      trial.note = refusal(key_, candidate);
      if (!trial.note.empty()) trial.outcome = ConvOutcome::kFiltered;
      trial.candidate = std::move(candidate);
    }
  }

  /// Sets the workspace that this search allows. In deterministic mode free memory does not count:
  /// it must not change the choice, and freeing cached blocks may still make room.
  void limit_workspace() {
    limit_bytes_ = key_.workspace_limit_bytes;
    if (!key_.deterministic()) {
      int64_t least = kMaxWorkspace;
      for (const ConvTrial& trial : choice_.trials) {
        if (trial.usable()) least = std::min(least, trial.candidate.workspace_bytes);
      }
      limit_bytes_ = std::min(limit_bytes_, std::max(least, engines_.available_bytes()));
    }
    for (ConvTrial& trial : choice_.trials) fits(trial);
  }

  /// True if the trial's workspace is allowed; otherwise the trial notes why not.
  bool fits(ConvTrial& trial) {
    if (!trial.usable()) return false;
    const int64_t bytes = trial.candidate.workspace_bytes;
    if (bytes <= limit_bytes_) return true;
    trial.outcome = ConvOutcome::kTooLarge;
    trial.note =
        concat("needs more workspace than ", readable_bytes(static_cast<uint64_t>(limit_bytes_)));
    if (bytes <= key_.workspace_limit_bytes)
      choice_.provisional = true;  // at another time there may be more memory
    return false;
  }

  /// Runs f on a trial; an exception of f becomes the trial's outcome.
  template <class F>
  void attempt(ConvTrial& trial, F f) {
    try {
      f();
    } catch (const OutOfMemoryError& error) {
      if (key_.deterministic()) throw;  // lack of memory must not choose another engine
      choice_.provisional = true;
      trial.note = error.message();
      const int64_t bytes = trial.candidate.workspace_bytes;
      // Without a workspace, only the scratch memory for timing did not fit: it may still be run.
      if (trial.outcome == ConvOutcome::kReady && bytes == 0) return;
      trial.outcome = ConvOutcome::kTooLarge;
      limit_bytes_ = std::min(limit_bytes_, bytes) / 2;
      for (ConvTrial& other : choice_.trials) fits(other);
    } catch (const CudaError& error) {
      trial.outcome = ConvOutcome::kFailed;
      trial.note = error.message();
    }
  }

  void prepare(ConvTrial& trial) {
    trial.candidate.workspace_bytes = engines_.prepare(trial.candidate.engine);
    trial.note = refusal(key_, trial.candidate);
    if (!trial.note.empty()) {
      trial.outcome = ConvOutcome::kFiltered;
    } else if (fits(trial)) {
      trial.outcome = ConvOutcome::kReady;
    }
  }

  void find_ready() {
    for (ConvTrial& trial : choice_.trials) {
      if (!trial.usable()) continue;
      attempt(trial, [&] { prepare(trial); });
      if (trial.outcome == ConvOutcome::kReady) return;
    }
  }

  void time_all() {
    int64_t tried = 0;
    for (ConvTrial& trial : choice_.trials) {
      if (!trial.usable()) continue;
      trial.note = best_ms_ < 0 ? "" : end_of_search(tried);
      if (!trial.note.empty()) continue;
      ++tried;
      attempt(trial, [&] {
        prepare(trial);
        if (trial.outcome == ConvOutcome::kReady) time(trial);
      });
    }
  }

  /// Why no further candidate is tried; "" if one may be.
  std::string end_of_search(int64_t tried) const {
    if (limits_.candidates > 0 && tried >= limits_.candidates)
      return concat("only ", limits_.candidates, " candidates are tried");
    if (limits_.ms > 0 && now_ms_() - began_ms_ >= limits_.ms)
      return concat("a search takes at most ", limits_.ms, " ms");
    return "";
  }

  void time(ConvTrial& trial) {
    const ConvEngine& engine = trial.candidate.engine;
    engines_.time_ms(engine);  // warm-up: loads the code, raises the clocks
    std::vector<double> ms;
    bool slow = false;
    while (std::ssize(ms) < kRuns && !slow) {
      ms.push_back(engines_.time_ms(engine));
      LATHE_CHECK(CudaError, ms.back() >= 0, "conv2d: a run was timed with ", ms.back(), " ms");
      slow = best_ms_ >= 0 && std::ssize(ms) >= kRunsBeforeStop &&
             *std::min_element(ms.begin(), ms.end()) > kClearlySlower * best_ms_;
    }
    trial.outcome = ConvOutcome::kTimed;
    trial.ms = lower_median(ms);
    trial.runs = static_cast<int>(ms.size());
    if (best_ms_ < 0 || trial.ms < best_ms_) best_ms_ = trial.ms;
  }

  const ConvKey& key_;
  ConvEngines& engines_;
  const ConvLimits& limits_;
  const ConvClock& now_ms_;
  const double began_ms_;
  int64_t limit_bytes_ = 0;
  double best_ms_ = -1;  // the fastest time so far; -1: none
  ConvChoice choice_;
};

}  // namespace

std::string_view name_of(ConvOutcome outcome) { return kOutcomes[static_cast<size_t>(outcome)]; }

ConvOutcome conv_outcome_from_name(std::string_view name) {
  const auto at = std::find(std::begin(kOutcomes), std::end(kOutcomes), name);
  LATHE_CHECK(DataError, at != std::end(kOutcomes), "convolution trial: no outcome is called \"",
              name, "\"");
  return static_cast<ConvOutcome>(at - std::begin(kOutcomes));
}

std::string refusal(const ConvKey& key, const ConvCandidate& candidate) {
  if (key.deterministic() && !candidate.deterministic) return "not deterministic";
  if (candidate.down_converts) return "computes in a narrower dtype than its tensors have";
  if (candidate.narrow_sums) return concat("adds up in a narrower dtype than ", key.compute);
  if (candidate.tensor_cores && key.x.dtype == kF32 && !key.tf32)
    return "uses tensor cores on f32, and TF32 is off";
  if (candidate.workspace_bytes < 0 || candidate.workspace_bytes > kMaxWorkspace)
    return concat("names an impossible workspace of ", candidate.workspace_bytes, " bytes");
  return "";
}

ConvChoice without_chosen(ConvChoice choice, bool out_of_memory, const std::string& why) {
  ConvTrial& failed = choice.trials[choice.chosen];
  failed.outcome = out_of_memory ? ConvOutcome::kTooLarge : ConvOutcome::kFailed;
  failed.note = why;
  choice.provisional = true;
  const int64_t limit = out_of_memory ? failed.candidate.workspace_bytes / 2 : kMaxWorkspace;
  const auto next = std::find_if(
      choice.trials.begin(), choice.trials.end(),
      [&](const ConvTrial& t) { return t.usable() && t.candidate.workspace_bytes <= limit; });
  choice.chosen = static_cast<size_t>(next - choice.trials.begin());
  return choice;
}

void fail_without_engine(const ConvKey& key, const ConvChoice& choice) {
  size_t counts[std::size(kOutcomes)] = {};
  std::string reasons;
  for (const ConvTrial& trial : choice.trials) {
    ++counts[static_cast<size_t>(trial.outcome)];
    if (!trial.usable()) reasons += concat("\n  engine ", trial.candidate.engine, ": ", trial.note);
  }
  const auto count = [&](ConvOutcome outcome) { return counts[static_cast<size_t>(outcome)]; };
  const std::string text =
      concat("conv2d: none of ", choice.trials.size(), " engines can be used (",
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
