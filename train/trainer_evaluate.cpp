// Evaluations of a training: when they are due, what they find, which state is the best.
#include <cmath>
#include <filesystem>
#include <optional>

#include "lathe/core/capture/step_graphs.h"
#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/train/trainer_impl.h"

namespace lathe::train {
namespace {

// NaN, as of a recall without positives, is worse than any number.
bool is_better(double value, double than, Better better) {
  if (std::isnan(than)) return !std::isnan(value);
  return better == Better::kHigher ? value > than : value < than;
}

}  // namespace

bool Trainer::Impl::evaluates_after(int64_t epoch) const {
  if (inputs.validation == nullptr) return false;
  const TrainerOptions& o = task.options;
  if (files.saves->last_is_sealed() || at.step >= here.total_steps || epoch == o.epochs)
    return true;
  return o.eval_every > 0 && epoch % o.eval_every == 0;
}

// Says the same after a resume: all that it looks at is part of the checkpoint.
bool Trainer::Impl::stops_early() const {
  return task.options.early_stopping > 0 && evaluated.now &&
         at.epoch - evaluated.best_epoch >= task.options.early_stopping;
}

// With an EMA the averages are evaluated and become the weights of best.safetensors. That file
// cannot continue bit by bit, so it must not be the only one. The evaluation's row is written
// before its result changes anything: a run that ended before that evaluates again.
void Trainer::Impl::evaluate_now() {
  if (ema && !files.saves->has_last()) save("last");
  memory.begin_part();
  std::optional<optim::EMA::Applied> averaged;
  if (ema) averaged.emplace(*ema);
  cuda::StepGraphs* const graphs = step->graphs();
  const size_t recorded = graphs != nullptr ? graphs->recorded() : 0;
  const Evaluation result = evaluate_on(*inputs.validation, true);
  if (graphs != nullptr) {
    if (graphs->recorded() > recorded) memory.part_is_graph(false);
    say_not_recorded("evaluations are");
  }
  if (!result.complete) return;
  const Tally& tally = result.tally;
  if (!std::isfinite(tally.loss())) fail_diverged("val", tally.loss());
  const int64_t rows = at.rows;
  const MetricsRow row =
      complete({.epoch = at.epoch,
                .step = at.step,
                .split = "val",
                .loss = tally.loss(),
                .metrics = tally.values(),
                .lr = at.last_lr,
                .samples_per_second = static_cast<double>(tally.count()) / result.seconds});
  const Evaluated before = evaluated;
  const StateDict rates = schedule().state_dict().clone();
  evaluated.now = true;
  evaluated.seconds = result.seconds;
  evaluated.loss = row.loss;
  evaluated.metrics = row.metrics;
  evaluated.value = monitored(row);
  schedule().observe(evaluated.loss);
  if (evaluated.best_epoch == 0 || is_better(evaluated.value, evaluated.best, monitor.better)) {
    evaluated.best = evaluated.value;
    evaluated.best_epoch = at.epoch;
  }
  if (!evaluated.kept || is_better(evaluated.value, *evaluated.kept, monitor.better)) {
    evaluated.kept = evaluated.value;
    try {
      save("best");
    } catch (...) {  // a run that goes on evaluates again
      evaluated = before;
      schedule().load_state_dict(rates);
      at.rows = rows;
      throw;
    }
  }
  tell([&](Observer& o) { o.on_evaluation(self, row); });
}

// Looks at the test samples, with the weights that were chosen; the row of metrics says of which
// epoch they are. The model has its present weights again afterwards: a signal may save them. In a
// new folder a finished run has no best.safetensors; then the present weights have to do, with an
// EMA their averages, as in every evaluation.
std::optional<Evaluation> Trainer::Impl::evaluate_test() {
  if (inputs.test == nullptr) return {};
  StateDict trainer;
  const StateDict present = task.model.state_dict().clone();
  {  // the file's state, which is larger than the weights, is not held during the evaluation
    const auto [chosen, best] = chosen_weights();
    trainer = checkpoint_section(best, "trainer").clone();
    task.model.load_state_dict(!chosen && ema ? ema->module_state()
                                              : checkpoint_section(best, "model"));
  }
  const struct Restore {
    nn::Module& model;
    const StateDict& state;
    ~Restore() {
      try {
        model.load_state_dict(state);
      } catch (const Error&) {  // a GPU that failed; last.safetensors is sealed
      }
    }
  } restore{task.model, present};
  memory.begin_part();
  Evaluation result = evaluate_on(*inputs.test, false);
  if (!result.complete) return {};
  const double loss = result.tally.loss();
  if (!std::isfinite(loss)) {
    ranks.part();
    throw DivergedError(DivergedError::Kind::kOther,
                        formatted("the test loss of {} is {}",
                                  (files.folder / "best.safetensors").string(), number_text(loss)),
                        "");
  }
  const MetricsRow row =
      complete({.epoch = trainer.count("epoch"),
                .step = trainer.count("step"),
                .split = "test",
                .loss = loss,
                .metrics = result.tally.values(),
                .lr = trainer.number<double>("last_lr"),
                .samples_per_second = static_cast<double>(result.tally.count()) / result.seconds});
  tell([&](Observer& o) { o.on_evaluation(self, row); });
  return result;
}

}  // namespace lathe::train
