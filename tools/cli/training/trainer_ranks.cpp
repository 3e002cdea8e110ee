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
// has made that too (`launched`).
void Trainer::backward_on_ranks(const StepTensors& step, bool launched) {
  Tally own;
  {
    const debug::AllowSync for_the_sums;
    own.add(step.scores, step.y, step.loss);
    own.read();
  }
  RankSums sums = begin_to_agree(own, true);
  if (launched) {
    // The graph has done it.
  } else if (ends_update()) {
    scaler_.scale(micro_batches_.weighted(step.loss)).backward();
  } else {
    const auto adds_up = parallel_->no_sync();
    scaler_.scale(micro_batches_.weighted(step.loss)).backward();
  }
  const Tally all = Tally::of_numbers(agree(std::move(sums)));
  if (!std::isfinite(all.loss())) fail_diverged("train", all.loss());
  window_.join(all);
  window_images_ += all.count();
}

// Of a step that all ranks have tried to record: why the first of those that could not could not.
std::string Trainer::problem_of_any_rank(const std::string& own) const {
  const std::vector<std::string> problems = parts_.ranks.from_all(own);
  for (size_t rank = 0; rank < problems.size(); ++rank) {
    if (!problems[rank].empty()) return formatted("rank {}: {}", rank, problems[rank]);
  }
  return {};
}

// Each rank evaluates its share of the images, with the batch norms of the first one.
Evaluation Trainer::evaluate_on(Input& input, bool may_launch) {
  if (parallel_) parts_.ranks.share_buffers(parts_.model);
  std::optional<EvaluationGraphs> graphs;
  if (graphs_ && may_launch) graphs.emplace(EvaluationGraphs{*graphs_, evaluation_});
  Evaluation result =
      evaluate(parts_.model, input, settings_, 0, progress_, {}, graphs ? &*graphs : nullptr);
  if (!parallel_) return result;
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
  if (parallel_ && parts_.train.device.is_cuda()) parts_.ranks.meet();
}

bool Trainer::take_save_request() {
  return parallel_ ? std::exchange(agreed_.save, false) : StopRequests::take_save();
}

int Trainer::signal() const { return parallel_ ? agreed_.signal : StopRequests::asked(); }

}  // namespace lathe::cli
