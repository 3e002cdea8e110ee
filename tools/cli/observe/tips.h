// The well-known tips for fast training, each as two ways to do the same job, and what windows of
// time say about them; bench_tips.cpp runs them.
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

/// One of the two ways: changes to the job's settings, its model, or each of its steps.
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
  std::string_view claim;     // "1.2x", or what it is said to do
  int source = 0;             // index in tip_sources()
  std::string not_here = {};  // why it does not apply; then the sides are empty
  TipJob job = TipJob::kTraining;
};

/// Who claims it.
std::vector<std::string_view> tip_sources();

/// All tips, in the order of the table. `settings` are those of the job, definite.
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

/// Of the ratios of windows that alternated, time without over time with. The interval is made of
/// order statistics, whatever the distribution: the narrowest that holds the median with 90 % or,
/// with fewer than five ratios, all of them.
///   helps, hurts  all of the interval, and the median by at least 2 %
///   no matter     all of the interval within 5 %
///   unclear       otherwise, and where there are too few ratios: the windows scatter too much
/// throws: ValueError without a ratio.
TipResult judge(std::vector<double> ratios);

/// "helps", "does not matter", "hurts", "not clear".
std::string_view name_of(Verdict verdict);

}  // namespace lathe::cli
