// What the ranks of a training agree on: sums of losses, requests to stop and to save, evaluations.
#include <cmath>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/debug/sync_check.h"
#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/train/stop_signals.h"
#include "lathe/train/trainer_impl.h"

namespace lathe::train {
namespace {

// What travels after the numbers of a tally: how many ranks have seen each of these.
constexpr int kSignals[] = {SIGHUP, SIGTERM, SIGINT};
constexpr size_t kSave = std::size(kSignals), kTime = kSave + 1, kStop = kTime + 1,
                 kIncomplete = kStop + 1, kRequests = kIncomplete + 1;

}  // namespace

// Signals count on any rank, the clock on the first one.
RankSums Trainer::Impl::begin_to_agree(const Tally& tally, bool complete) {
  std::vector<double> numbers = tally.numbers();
  for (const int each : kSignals) numbers.push_back(StopSignals::asked() == each);
  numbers.push_back(StopSignals::take_save());
  const double limit = task.options.time_limit;
  numbers.push_back(ranks.is_first() && limit > 0 && seconds() >= limit);
  numbers.push_back(here.told_to_stop);
  numbers.push_back(!complete);
  return ranks.begin_sum(numbers);
}

std::vector<double> Trainer::Impl::agree(RankSums sums_of_all) {
  std::vector<double> all = sums_of_all.wait();
  const std::vector<double> seen(all.end() - kRequests, all.end());
  for (size_t s = 0; s < std::size(kSignals) && agreed.signal == 0; ++s) {
    if (seen[s] > 0) agreed.signal = kSignals[s];
  }
  agreed.save = agreed.save || seen[kSave] > 0;
  agreed.time_is_over = agreed.time_is_over || seen[kTime] > 0;
  agreed.stop = agreed.stop || seen[kStop] > 0;
  return all;
}

// The sums travel while the backward pass computes. Those of a launched step begin when all of its
// graph is done. A loss that is not finite on any rank ends all, before the update, unless a graph
// has made that too.
void Trainer::Impl::backward_on_ranks(const Result& result) {
  Tally all(task.sums);
  {
    const debug::AllowSync for_the_sums;
    all.add(result);
    all.read();
  }
  RankSums travelling = begin_to_agree(all, true);
  step->backward();
  all.set_numbers(agree(std::move(travelling)));
  if (!std::isfinite(all.loss())) fail_diverged("train", all.loss());
  sums.window.join(all);
  sums.window_samples += all.count();
  sums.samples += all.count();
}

namespace {

void check_count(const Evaluation& result) {
  LATHE_CHECK(ValueError, !result.complete || result.tally.count() > 0,
              "train::Trainer: there are no batches to evaluate");
}

}  // namespace

// Each rank evaluates its share of the samples, with the batch norms of the first one.
Evaluation Trainer::Impl::evaluate_on(Batches& batches, bool may_launch) {
  if (on_ranks()) ranks.share_buffers(task.model);
  EvaluateOptions options{.amp = task.options.amp,
                          .stop = [] { return StopSignals::asked() != 0; },
                          .progress =
                              [this](const ProgressState& state) {
                                tell([&](Observer& o) { o.on_evaluation_batch(self, state); });
                              }};
  if (step->graphs() != nullptr && may_launch) {
    options.graphs = step->graphs();
    options.sums = &sums.evaluation;
  }
  Evaluation result =
      evaluate(task.model, batches, task.evaluation_loss ? task.evaluation_loss : task.loss,
               Tally(task.sums), options);
  if (on_ranks() && !task.sums.metrics.empty()) {  // a rank may have no batch
    for (const std::string& layout : ranks.from_all(result.tally.layout()))
      if (!layout.empty()) result.tally.take_layout(layout);
  }
  if (!on_ranks()) {
    check_count(result);
    return result;
  }
  const std::vector<double> all = agree(begin_to_agree(result.tally, result.complete));
  result.tally.set_numbers(all);
  result.complete = all[all.size() - kRequests + kIncomplete] == 0;
  check_count(result);
  return result;
}

// Those of best.safetensors, or the present ones if there is no such file; and whether there is.
std::pair<bool, Checkpoint> Trainer::Impl::chosen_weights() {
  std::optional<Checkpoint> best;
  const std::filesystem::path file = files.folder / "best.safetensors";
  if (ranks.is_first() && !files.folder.empty() && is_there(file))
    best = read_checkpoint(file.string());
  best = ranks.from_first(best);
  const bool chosen = best.has_value();
  return {chosen, chosen ? std::move(*best) : checkpoint()};
}

// Before a state is taken for good: what the GPUs of all ranks have queued for it is done, or this
// throws. On CPUs a reduction that fails throws before the update.
void Trainer::Impl::meet_over_gpus() const {
  if (on_ranks() && device.is_cuda()) ranks.meet();
}

bool Trainer::Impl::take_save_request() {
  return on_ranks() ? std::exchange(agreed.save, false) : StopSignals::take_save();
}

// Also one that the other ranks do not know of yet.
bool Trainer::Impl::asked_by_signal() const { return StopSignals::asked() != 0; }

bool Trainer::Impl::asked_to_stop() const { return on_ranks() ? agreed.stop : here.told_to_stop; }

int Trainer::Impl::signal() const { return on_ranks() ? agreed.signal : StopSignals::asked(); }

}  // namespace lathe::train
