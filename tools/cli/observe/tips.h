// The well-known tips for fast training, each as two ways to do the same job, and the verdict that
// timings of both ways give; bench_tips.cpp runs them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/nn/module.h"
#include "lathe/tools/cli/observe/doctor_facts.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// One of the two ways to run a job that a tip compares: changes to the job's settings, to its
/// model, or to each of its steps.
struct TipSide {
  std::string says;  // "--workers 0"
  std::function<void(Settings&)> change = {};
  std::function<void(nn::Module&)> prepare = {};     // as in TrialOptions
  std::function<void(nn::Module&)> after_step = {};  // likewise
};

enum class TipJob : uint8_t { kTraining, kEvaluation };

struct Tip {
  std::string_view name;
  TipSide without, with;
  std::string_view claim;     // "1.2x", or what the tip is said to do
  int source = 0;             // index in tip_sources()
  std::string not_here = {};  // why it does not apply; then the sides are empty
  TipJob job = TipJob::kTraining;
};

/// The sources that claim the tip.
std::vector<std::string_view> tip_sources();

/// All tips, in the order of the table. `settings` are those of the job, all of them chosen.
///   fast_halves  the CPU multiplies bf16 faster than f32
///   norms        the model has convolutions directly before batch norms
std::vector<Tip> all_tips(const Settings& settings, const MachineFacts& machine, bool fast_halves,
                          bool norms);

enum class Verdict : uint8_t { kHelps, kNoMatter, kHurts, kUnclear };

/// How many times as fast a job is with a tip.
struct TipResult {
  double median = 1, low = 1, high = 1;
  double coverage = 0;  // the probability with which the interval holds the median
  int64_t pairs = 0;
  Verdict verdict = Verdict::kUnclear;
};

/// Judges a tip by ratios of pairs of windows: time without the tip over time with it. The interval
/// goes from one of the sorted ratios to another. It is the narrowest such interval that contains
/// the true median with a probability of 90 %, for any distribution. With fewer than five ratios it
/// contains all ratios.
///   helps      the interval lies above 1, and the median is at least 1.02
///   hurts      the interval lies below 1, and the median is at most 1 / 1.02
///   no matter  the interval lies within 5 % of 1
///   unclear    otherwise, or with too few ratios
/// throws: ValueError without a ratio.
TipResult judge(std::vector<double> ratios);

/// The verdict as text: "helps", "does not matter", "hurts", "not clear".
std::string_view name_of(Verdict verdict);

}  // namespace lathe::cli
