// What a training measures and tells: rows of metrics, progress, epochs that have ended.
#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "lathe/core/ceil_div.h"
#include "lathe/core/text/formatted.h"
#include "lathe/train/trainer_impl.h"

namespace lathe::train {

double Trainer::Impl::monitored(const MetricsRow& row) const {
  return monitor.name == "loss" ? row.loss : value_of(row.metrics, monitor.name);
}

// Completes a row of metrics with what all rows have, and passes it on to be kept.   → the row
// It waits for a GPU, so that the loss scale is that after the row's step, as in a checkpoint of
// that step. What the host happens to know by then depends on how far the GPU has got.
MetricsRow Trainer::Impl::complete(MetricsRow row) {
  const auto scale = scaler().read_progress();
  row.time = time_text(std::chrono::system_clock::now());
  row.loss_scale = scaler().enabled() ? scale.scale : 0;
  row.skipped_steps = here.skipped_before + scale.skipped;
  row.of_images = task.sums.scores;
  row.memory = memory.part(row.split == "train");
  tell([&](Observer& o) { o.on_row(self, row); });
  ++at.rows;
  return row;
}

// Makes one row of training metrics: the mean since the row before. A new mean begins once the row
// is kept.
void Trainer::Impl::write_window() {
  if (sums.window.count() == 0) return;
  if (!window_is_finite()) fail_diverged("train", sums.window.loss());
  const MetricsRow row = complete(
      {.epoch = at.epoch,
       .step = at.step,
       .split = "train",
       .loss = sums.window.loss(),
       .metrics = sums.window.values(),
       .lr = at.last_lr,
       .samples_per_second = static_cast<double>(sums.window_samples) / sums.window_seconds});
  // A GPU clears the sums by launches. If one fails, they are neither those before nor those after,
  // and a run that went on from them would have other rows.
  const bool was_inside = here.inside_step;
  here.inside_step = here.inside_step || device.is_cuda();
  sums.epoch.join(sums.window);
  sums.window.clear();
  here.inside_step = was_inside;
  sums.window_seconds = 0;
  sums.window_samples = 0;
  tell([&](Observer& o) { o.on_log(self, row); });
}

ProgressState Trainer::Impl::progress() const {
  const TrainerOptions& o = task.options;
  const int64_t batches = inputs.train->size();
  const int64_t per_epoch = batches >= 0 ? ceil_div(batches, o.accumulate) : 0;
  const double rate =
      sums.seconds > 0 ? static_cast<double>(at.step - here.begin_step) / sums.seconds : 0;
  Tally so_far = sums.epoch;
  so_far.join(sums.window);
  const int64_t evaluations = o.eval_every > 0 ? (o.epochs - at.epoch) / o.eval_every + 1 : 1;
  const auto scale = scaler().progress();
  return {
      .label = formatted("epoch {}/{}", at.epoch, o.epochs),
      .done = ceil_div(at.batch, o.accumulate),
      .total = per_epoch,
      .loss = so_far.loss(),
      .metrics = so_far.values(),
      .lr = at.last_lr,
      .loss_scale = scaler().enabled() ? scale.scale : 0,
      .skipped_steps = here.skipped_before + scale.skipped,
      .samples_per_second = sums.seconds > 0 ? static_cast<double>(sums.samples) / sums.seconds : 0,
      .data_wait = data_wait(),
      .eta_seconds = here.total_steps < std::numeric_limits<int64_t>::max()
                         ? static_cast<double>(here.total_steps - at.step) / rate +
                               evaluated.seconds * static_cast<double>(evaluations)
                         : std::numeric_limits<double>::quiet_NaN()};
}

// Tells of epochs once what they saved is on the disk, after one of the next steps.
void Trainer::Impl::tell_epochs() {
  while (!files.ended.empty() && files.saves->holds(files.ended.front().saves)) {
    const EpochReport report = std::move(files.ended.front().report);
    files.ended.pop_front();
    tell([&](Observer& o) { o.on_epoch(self, report); });
  }
}

void Trainer::Impl::say(MessageKind kind, const std::string& text) {
  tell([&](Observer& o) { o.on_message(self, kind, text); });
}

}  // namespace lathe::train
