// Choosing an engine for one convolution: which candidates come into question, how they are timed,
// which one wins. One thread, no state; what is kept between calls is in conv_search.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/ops/conv_search/conv_engines.h"
#include "lathe/ops/conv_search/conv_key.h"

namespace lathe {

/// What became of a candidate. Words in texts: timed, ready, untried, filtered, too_large, failed.
/// The first three can be used.
enum class ConvOutcome : uint8_t {
  kTimed,     // ran; ms is its time
  kReady,     // was made ready, not timed
  kUntried,   // could be tried: an earlier one was taken, or the limits were reached
  kFiltered,  // may not be used for this key
  kTooLarge,  // needs more workspace than there is
  kFailed,    // the library refused it, or it failed when it ran
};

LATHE_API std::string_view name_of(ConvOutcome outcome);
/// throws: DataError.
LATHE_API ConvOutcome conv_outcome_from_name(std::string_view name);

/// A candidate and what became of it.
struct ConvTrial {
  ConvCandidate candidate;
  ConvOutcome outcome = ConvOutcome::kUntried;
  double ms = 0;     // of one run, the median
  int runs = 0;      // that were timed
  std::string note;  // why it was not taken: "uses tensor cores, and TF32 is off"

  /// Could compute the convolution, as far as is known.
  bool usable() const { return outcome <= ConvOutcome::kUntried; }
  bool operator==(const ConvTrial&) const = default;
};

/// The result of a search.
struct ConvChoice {
  std::vector<ConvTrial> trials;  // timed ones by time, the others in the library's order
  size_t chosen = 0;              // of trials
  double search_ms = 0;           // that it took
  /// Something that has nothing to do with the key had a say: little free memory, an engine that
  /// failed in use. Not written to files.
  bool provisional = false;
  /// When a program last took it from a file, to within a week; 1970-01-01: never in one.
  std::chrono::sys_days used{};

  const ConvCandidate& candidate() const { return trials[chosen].candidate; }
  bool operator==(const ConvChoice&) const = default;
};

/// How much a search may cost. 0: no limit.
struct ConvLimits {
  int64_t candidates = 16;  // that are made ready per key
  double ms = 2000;         // after this time no further candidate is begun
};

using ConvClock = std::function<double()>;  // milliseconds from any fixed time on

/// A copy of `choice` in which the chosen engine has failed for this reason and the next usable one
/// is chosen: the next fastest, then those not timed in the library's order. For out_of_memory: the
/// next that needs at most half the workspace. `chosen` is trials.size() if there is none.
LATHE_API ConvChoice without_chosen(ConvChoice choice, bool out_of_memory, const std::string& why);

/// throws: OutOfMemoryError if memory is all that was missing, CudaError otherwise and in
/// deterministic mode, both naming the key and why its candidates were not taken.
[[noreturn]] LATHE_API void fail_without_engine(const ConvKey& key, const ConvChoice& choice);

/// Why the candidate may not be used for the key, whatever its speed; "" if it may.
LATHE_API std::string refusal(const ConvKey& key, const ConvCandidate& candidate);

/// Chooses an engine for `key`. With `may_time` false nothing is timed and mode kBenchmark chooses
/// as kHeuristic does.
/// throws: as fail_without_engine, if no candidate can be used; in deterministic mode the
/// OutOfMemoryError of the candidate that comes first.
LATHE_API ConvChoice choose_engine(const ConvKey& key, ConvEngines& engines,
                                   const ConvLimits& limits, const ConvClock& now_ms,
                                   bool may_time);

}  // namespace lathe
