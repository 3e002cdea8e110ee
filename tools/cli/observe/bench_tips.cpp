// lathe bench tips: measures the well-known tips, one by one, on one job. Windows with and without
// a tip alternate, all tips in turn, so that what changes on the machine meets all of them.
#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "lathe/core/seconds_since.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/ops/conv/cpu/conv2d_dnnl.h"
#include "lathe/tools/cli/observe/tips.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/folder_images.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/trial.h"

namespace lathe::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kRounds = 13;  // the middle 7 of 13 ratios hold the median with 91 %
constexpr int64_t kPairsForVerdict = 5;
constexpr int64_t kFewestRounds = 1;   // even if the time is over
constexpr double kLonger = 1.1;        // a round is begun if it ends within this part of the time
constexpr double kLeastWindow = 0.05;  // seconds

/// The job, its data by data cache, and the time that is left.
class Bench {
 public:
  Bench(const Settings& settings, const TrialData& data) : settings_(settings) {
    data_.emplace(*settings.data_cache, data);
  }

  double seconds() const { return seconds_since(began_); }
  /// Whether there is time for a round that takes so long.
  bool has_time_for(double round) const {
    return seconds() + round <= kLonger * *settings_.seconds;
  }

  /// Why a side of the tip has no data; "" if both have. A compressed file cannot be read image by
  /// image.
  std::string lacks_data(const Tip& tip) {
    for (const TipSide* const side : {&tip.without, &tip.with}) {
      Settings changed = settings_;
      if (side->change) side->change(changed);
      try {
        data_for(changed);
      } catch (const DataError& e) {
        return e.message();
      }
    }
    return "";
  }

  /// Time without the tip over time with it. `swapped`: the tip comes first.
  double ratio_of(const Tip& tip, bool swapped, int64_t windows_left) {
    const TipSide &first = swapped ? tip.with : tip.without,
                  &second = swapped ? tip.without : tip.with;
    const double a = window(tip, first, windows_left), b = window(tip, second, windows_left - 1);
    return swapped ? b / a : a / b;
  }

 private:
  /// → seconds per step
  double window(const Tip& tip, const TipSide& side, int64_t windows_left) {
    const auto begin = Clock::now();
    const double left = *settings_.seconds - seconds_since(began_);
    const double mean_overhead = windows_ > 0 ? overhead_ / static_cast<double>(windows_) : 0;
    const double share = left / static_cast<double>(std::max<int64_t>(windows_left, 1));
    Settings changed = settings_;
    if (side.change) side.change(changed);
    const TrialOptions options{.seconds = std::max(share - mean_overhead, kLeastWindow),
                               .prepare = side.prepare,
                               .after_step = side.after_step};
    const TrialTimes times =
        tip.job == TipJob::kTraining
            ? try_training(changed, data_for(changed), options)
            : try_evaluation(changed, data_for(changed), options, &side == &tip.without);
    overhead_ += seconds_since(begin) - times.seconds;
    ++windows_;
    return times.per_step();
  }

  const TrialData& data_for(const Settings& settings) {
    const auto found = data_.find(*settings.data_cache);
    return found != data_.end()
               ? found->second
               : data_.emplace(*settings.data_cache, open_trial_data(settings)).first->second;
  }

  const Settings& settings_;
  const Clock::time_point began_ = Clock::now();
  std::map<std::string, TrialData> data_;
  double overhead_ = 0;  // of the windows so far: models, folders, warm-up
  int64_t windows_ = 0;
};

/// The ratios of each tip that applies, in as many rounds as the time allows.
std::vector<std::vector<double>> measure_tips(Bench& bench, const std::vector<Tip>& tips) {
  std::vector<std::vector<double>> ratios(tips.size());
  const auto apply =
      std::ranges::count_if(tips, [](const Tip& tip) { return tip.not_here.empty(); });
  int64_t left = 2 * kRounds * apply;
  double longest = 0;  // of the rounds so far
  for (int64_t round = 0; round < kRounds; ++round) {
    if (round >= kFewestRounds && !bench.has_time_for(longest)) break;
    const double begin = bench.seconds();
    for (size_t i = 0; i < tips.size(); ++i) {
      if (!tips[i].not_here.empty()) continue;
      ratios[i].push_back(bench.ratio_of(tips[i], round % 2 == 1, left));
      left -= 2;
    }
    longest = std::max(longest, bench.seconds() - begin);
  }
  return ratios;
}

void print_result(const Tip& tip, const TipResult& result, const Output& out) {
  out.row(Row()
              .add("event", "tip")
              .add("tip", std::string(tip.name))
              .add("without", tip.without.says)
              .add("with", tip.with.says)
              .add("gain", result.median)
              .add("low", result.low)
              .add("high", result.high)
              .add("coverage", result.coverage)
              .add("pairs", result.pairs)
              .add("verdict", std::string(name_of(result.verdict)))
              .add("claim", std::string(tip.claim))
              .add("source", std::string(tip_sources()[static_cast<size_t>(tip.source)])));
  out.text(formatted("{:<21} {:>5.2f}x  {:>4.2f} to {:<4.2f}  {:<16}  {} [{}]", tip.name,
                     result.median, result.low, result.high, name_of(result.verdict), tip.claim,
                     tip.source + 1));
}

void print(const std::vector<Tip>& tips, const std::vector<std::vector<double>>& ratios,
           const Output& out) {
  out.text(formatted("{:<21} {:>6}  {:<12}  {:<16}  {}", "tip", "gain", "interval", "here it",
                     "claimed"));
  for (size_t i = 0; i < tips.size(); ++i) {
    if (tips[i].not_here.empty()) print_result(tips[i], judge(ratios[i]), out);
  }
  for (const Tip& tip : tips) {
    if (tip.not_here.empty()) continue;
    out.row(Row()
                .add("event", "not_applying")
                .add("tip", std::string(tip.name))
                .add("why", tip.not_here));
    out.sentence(formatted("{}: does not apply, {}", tip.name, tip.not_here));
  }
  for (size_t i = 0; i < tips.size(); ++i) {
    if (!tips[i].not_here.empty()) continue;
    const TipResult result = judge(ratios[i]);
    out.sentence(
        formatted("gain: the median of {} pairs; the true gain lies in the interval with a "
                  "probability of {:.0f} %; an effect below 2 % counts as none",
                  result.pairs, 100 * result.coverage));
    if (result.pairs < kPairsForVerdict)
      out.sentence("these are too few pairs for a verdict; a longer --seconds makes more of them");
    break;  // all tips have as many pairs
  }
  const auto sources = tip_sources();
  for (size_t i = 0; i < sources.size(); ++i) out.sentence(formatted("[{}] {}", i + 1, sources[i]));
}

}  // namespace

ExitCode run_bench_tips(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  const StopRequests signals;  // a trial removes its folder
  const std::string model = choose_model(settings, settings.weights);
  take_model_file(settings);
  Machine here = look_around(settings);
  const std::string run = choose_run(settings, here);
  here.folder_images = count_folder_images(settings);
  complete(settings, here);
  choose_stem(settings, settings.weights);
  if (!settings.seconds) settings.seconds = 240;
  const Device device = prepare_compute(settings);
  const TrialData data = open_trial_data(settings);
  for (const std::string& line : {run, model}) {
    if (!line.empty()) out.sentence(line);
  }
  const bool norms = !convolutions_before_norm(
                          *make_empty_model(settings, {.classes = data.images->classes(),
                                                       .in_channels = data.images->channels()}))
                          .empty();
  std::vector<Tip> tips = all_tips(settings, machine_facts(device), cpu::onednn_info().bf16, norms);
  out.sentence(
      formatted("{} on {}, batch {}, on {} with {}; {:.0f} s, in pairs of windows "
                "with and without each tip",
                *settings.model, *settings.dataset, *settings.batch_size, concat(device),
                count_text(*settings.threads, "thread"), *settings.seconds));
  Bench bench(settings, data);
  for (Tip& tip : tips) {
    if (!tip.not_here.empty()) continue;
    tip.not_here = bench.lacks_data(tip);
    if (!tip.not_here.empty()) tip.without = tip.with = {};
  }
  const auto ratios = measure_tips(bench, tips);
  print(tips, ratios, out);
  out.row(Row()
              .add("event", "done")
              .add("model", *settings.model)
              .add("dataset", *settings.dataset)
              .add("batch_size", *settings.batch_size)
              .add("device", concat(device))
              .add("threads", *settings.threads));
  return ExitCode::kDone;
}

}  // namespace lathe::cli
