// Choosing an engine for one convolution: which candidates may be used, how they are timed, which
// one wins. For one thread, without state; conv_search.h holds what is kept between calls.
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
#include "lathe/ops/conv_search/conv_limits.h"

namespace lathe {

/// What became of a candidate. Words in texts: timed, ready, untried, filtered, too_large, failed.
/// Candidates with one of the first three can be used.
enum class ConvOutcome : uint8_t {
  kTimed,     // ran; ms is its time
  kReady,     // was made ready, not timed
  kUntried,   // not tried: an earlier one was taken, or the limits were reached
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
  double ms = 0;     // of one run: the median
  int runs = 0;      // how many were timed
  std::string note;  // why it was not taken: "uses tensor cores on f32, and TF32 is off"

  /// True if it can compute the convolution, as far as is known.
  bool usable() const { return outcome <= ConvOutcome::kUntried; }
  bool operator==(const ConvTrial&) const = default;
};

/// The result of a search.
struct ConvChoice {
  std::vector<ConvTrial> trials;  // timed ones by time, the others in the library's order
  size_t chosen = 0;              // index into trials
  double search_ms = 0;           // how long the search took
  /// True if something that is not in the key influenced the choice: little free memory, or an
  /// engine that failed in use. Such a choice is not written to files.
  bool provisional = false;
  /// The date when a program last took it from a file, to within a week; 1970-01-01: in none.
  std::chrono::sys_days used{};

  const ConvCandidate& candidate() const { return trials[chosen].candidate; }
  bool operator==(const ConvChoice&) const = default;
};

using ConvClock = std::function<double()>;  // milliseconds since any fixed time

/// A copy of `choice` in which the chosen engine has failed, for the reason `why`, and the next
/// usable one is chosen: the next fastest, then those not timed in the library's order. With
/// out_of_memory the next one must need at most half the workspace. If there is none, `chosen` is
/// trials.size().
LATHE_API ConvChoice without_chosen(ConvChoice choice, bool out_of_memory, const std::string& why);

/// throws: OutOfMemoryError if only memory was missing; CudaError otherwise, and always in
/// deterministic mode. Both name the key and why its candidates were not taken.
[[noreturn]] LATHE_API void fail_without_engine(const ConvKey& key, const ConvChoice& choice);

/// Why the candidate may not be used for the key, whatever its speed; "" if it may.
LATHE_API std::string refusal(const ConvKey& key, const ConvCandidate& candidate);

/// Chooses an engine for `key`. If `may_time` is false, nothing is timed, and mode kBenchmark
/// chooses as kHeuristic does.
/// throws: as fail_without_engine if no candidate can be used; in deterministic mode the
/// OutOfMemoryError of the first candidate.
LATHE_API ConvChoice choose_engine(const ConvKey& key, ConvEngines& engines,
                                   const ConvLimits& limits, const ConvClock& now_ms,
                                   bool may_time);

}  // namespace lathe
