// Choosing an engine for one convolution: which engines may be used, how they are timed, which
// one wins. For one thread, without state; conv_search.h holds what is kept between calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/ops/conv/search/conv_engines.h"
#include "lathe/ops/conv/search/conv_key.h"
#include "lathe/ops/conv/search/conv_limits.h"

namespace lathe {

/// What became of an engine. Words in texts: timed, ready, untried, filtered, too_large, failed.
/// Engines with one of the first three can be used.
enum class ConvOutcome : uint8_t {
  kTimed,     // ran; ms is its time
  kReady,     // was made ready, not timed
  kUntried,   // not tried: an earlier one was taken, or a limit was reached
  kFiltered,  // may not be used for this key
  kTooLarge,  // needs more workspace than there is
  kFailed,    // the library refused it, or it failed when it ran
};

LATHE_API std::string_view name_of(ConvOutcome outcome);
/// throws: DataError.
LATHE_API ConvOutcome conv_outcome_from_name(std::string_view name);

/// An engine of a search, and what became of it.
struct ConvEngineResult {
  ConvEngineInfo info;
  ConvOutcome outcome = ConvOutcome::kUntried;
  double ms = 0;     // of one run: the median
  int runs = 0;      // how many were timed
  std::string note;  // why it was not taken: "uses tensor cores on f32, and TF32 is off"

  /// True if it can compute the convolution, as far as is known.
  bool usable() const { return outcome <= ConvOutcome::kUntried; }
  bool operator==(const ConvEngineResult&) const = default;
};

/// The engine that is taken for a key, with all those that the search considered.
struct ConvChoice {
  /// The fastest by their second timing, the other timed ones by their only one, then the others in
  /// the order in which they would have been tried.
  std::vector<ConvEngineResult> engines;
  size_t chosen = 0;     // index into engines
  double search_ms = 0;  // how long the search took
  /// True if something that is not in the key influenced the choice: little free memory, an engine
  /// that failed in use, or a search that its time limit cut short. Such a choice is not written to
  /// files.
  bool provisional = false;
  bool has_fallback = false;  // heuristic kFallback was asked for engines, too
  /// The date when a program last took it from a file, to within a week; 1970-01-01: in none.
  std::chrono::sys_days used{};

  const ConvEngineInfo& info() const { return engines[chosen].info; }
  bool operator==(const ConvChoice&) const = default;
};

using ConvClock = std::function<double()>;  // milliseconds since any fixed time

/// A copy of `choice` in which the chosen engine has failed, for the reason `why`, and the next
/// usable one is chosen: the next fastest, then those not timed in their order. With out_of_memory
/// the next one must need at most half the workspace. If there is none, `chosen` is engines.size().
LATHE_API ConvChoice without_chosen(ConvChoice choice, bool out_of_memory, const std::string& why);

/// A copy of `choice` with all engines of heuristic kFallback that it lacks. The first added engine
/// that may be used for the key is chosen. If there is none, `chosen` is engines.size().
/// workspace_limit_bytes  the most workspace that the chosen engine may need
LATHE_API ConvChoice with_fallback(const ConvKey& key, ConvEngines& engines, ConvChoice choice,
                                   int64_t workspace_limit_bytes);

/// throws: OutOfMemoryError if only memory was missing; CudaError otherwise, and always in
/// deterministic mode. Both name the key and why its engines were not taken.
[[noreturn]] LATHE_API void fail_without_engine(const ConvKey& key, const ConvChoice& choice);

/// Why the engine may not be used for the key, whatever its speed; "" if it may.
LATHE_API std::string refusal(const ConvKey& key, const ConvEngineInfo& info);

/// Chooses an engine for `key`. If `may_time` is false, nothing is timed, and mode kBenchmark
/// chooses as kHeuristic does. Engines: for timing, those of heuristics A and B alternately.
/// Without timing, those of A, and those of B only if no engine of A can be used. Engines with
/// tensor cores come first for tensors of a half type, and for f32 that may be rounded to TF32. The
/// fall-back is asked only if no other engine can be used. Timing: each engine runs 9 times, or 6
/// if it is clearly slower than the fastest so far. Then the fastest, at most 5, run 15 times each,
/// alternately, and the fastest of these wins.
/// throws: as fail_without_engine if no engine can be used; in deterministic mode the
/// OutOfMemoryError of the first engine.
LATHE_API ConvChoice choose_engine(const ConvKey& key, ConvEngines& engines,
                                   const ConvLimits& limits, const ConvClock& now_ms,
                                   bool may_time);

}  // namespace lathe
