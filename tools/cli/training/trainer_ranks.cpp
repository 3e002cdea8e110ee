// What the ranks of a training agree on: sums of losses, requests to stop and to save, evaluations.
#include <cmath>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/paths.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/debug_scopes.h"
#include "lathe/tools/cli/training/trainer.h"

namespace lathe::cli {
namespace {

// The order of what travels: the numbers of a tally, then how many ranks have seen each of these.
constexpr size_t kTallied = 4;
constexpr int kSignals[] = {SIGHUP, SIGTERM, SIGINT};
constexpr size_t kSave = kTallied + std::size(kSignals), kTime = kSave + 1, kIncomplete = kTime + 1;

}  // namespace

// Signals count on any rank, the clock on the first one.
RankSums Trainer::begin_to_agree(const Tally& tally, bool complete) {
  std::vector<double> numbers = tally.numbers();
  for (const int each : kSignals) numbers.push_back(StopRequests::asked() == each);
  numbers.push_back(StopRequests::take_save());
  numbers.push_back(parts_.ranks.is_first() && settings_.time_limit > 0 &&
                    seconds() >= settings_.time_limit);
  numbers.push_back(!complete);
  return parts_.ranks.begin_sum(numbers);
}

std::vector<double> Trainer::agree(RankSums sums) {
  std::vector<double> all = sums.wait();
  for (size_t s = 0; s < std::size(kSignals) && agreed_.signal == 0; ++s) {
    if (all[kTallied + s] > 0) agreed_.signal = kSignals[s];
  }
  agreed_.save = agreed_.save || all[kSave] > 0;
  agreed_.time_is_over = agreed_.time_is_over || all[kTime] > 0;
  return all;
}

// The sums travel while the backward pass computes. Those of a launched step begin when all of its
// graph is done. A loss that is not finite on any rank ends all, before the update, unless a graph
// has made that too.
void Trainer::backward_on_ranks(const train::Result& result) {
  Tally own;
  {
    const debug::AllowSync for_the_sums;
    own.add(result.output, result.target, result.loss);
    own.read();
  }
  RankSums sums = begin_to_agree(own, true);
  train_step_->backward();
  const Tally all = Tally::of_numbers(agree(std::move(sums)));
  if (!std::isfinite(all.loss())) fail_diverged("train", all.loss());
  window_.join(all);
  window_images_ += all.count();
}

// Each rank evaluates its share of the images, with the batch norms of the first one.
Evaluation Trainer::evaluate_on(Input& input, bool may_launch) {
  if (on_ranks()) parts_.ranks.share_buffers(parts_.model);
  std::optional<EvaluationGraphs> graphs;
  if (train_step_->graphs() != nullptr && may_launch)
    graphs.emplace(EvaluationGraphs{*train_step_->graphs(), evaluation_});
  Evaluation result =
      evaluate(parts_.model, input, settings_, 0, progress_, {}, graphs ? &*graphs : nullptr);
  if (!on_ranks()) return result;
  const std::vector<double> all = agree(begin_to_agree(result.tally, result.complete));
  result.tally = Tally::of_numbers(all);
  result.complete = all[kIncomplete] == 0;
  return result;
}

// Those of best.safetensors, or the present ones if there is no such file; and whether there is.
std::pair<bool, Checkpoint> Trainer::chosen_weights() {
  std::optional<Checkpoint> best;
  const std::filesystem::path file = folder_ / "best.safetensors";
  if (parts_.ranks.is_first() && is_there(file)) best = read_checkpoint(file.string());
  best = parts_.ranks.from_first(best);
  const bool chosen = best.has_value();
  return {chosen, chosen ? std::move(*best) : checkpoint()};
}

// Before a state is taken for good: what the GPUs of all ranks have queued for it is done, or this
// throws. On CPUs a reduction that fails throws before the update.
void Trainer::meet_over_gpus() const {
  if (on_ranks() && parts_.train.device.is_cuda()) parts_.ranks.meet();
}

bool Trainer::take_save_request() {
  return on_ranks() ? std::exchange(agreed_.save, false) : StopRequests::take_save();
}

int Trainer::signal() const { return on_ranks() ? agreed_.signal : StopRequests::asked(); }

}  // namespace lathe::cli
