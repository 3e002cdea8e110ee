// What a training shows and writes: rows of metrics, the progress line, the epoch's line.
#include <chrono>
#include <utility>

#include "lathe/core/ceil_div.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/training/trainer.h"

namespace lathe::cli {

// Completes a row of metrics with what all rows have, and appends it to the files.   → the row
// It waits for a GPU, so that the loss scale is that after the row's step, as in a checkpoint of
// that step. What the host happens to know by then depends on how far the GPU has got.
Row Trainer::add_row(Metrics metrics) {
  const auto scale = scaler().read_progress();
  metrics.time = time_text(std::chrono::system_clock::now());
  metrics.loss_scale = scaler().enabled() ? scale.scale : 0;
  metrics.skipped_steps = skipped_before_ + scale.skipped;
  metrics.memory = memory_.part(metrics.split == "train");
  Row row = metrics_row(metrics);
  if (metrics_) metrics_->add(row);
  if (events_) events_->add(metrics);
  return row;
}

// Writes one row of training metrics: the mean since the row before. A new mean begins once the row
// is in the files.
void Trainer::write_window() {
  if (window_.count() == 0) return;
  if (!window_is_finite()) fail_diverged("train", window_.loss());
  const Row row =
      add_row({.epoch = epoch_,
               .step = step_,
               .split = "train",
               .loss = window_.loss(),
               .accuracy = window_.accuracy(),
               .lr = last_lr_,
               .images_per_second = static_cast<double>(window_images_) / window_seconds_});
  // A GPU clears the sums by launches. If one fails, they are neither those before nor those after,
  // and a run that went on from them would have other rows.
  const bool was_inside = inside_step_;
  inside_step_ = inside_step_ || parts_.train.device.is_cuda();
  epoch_tally_.join(window_);
  window_.clear();
  inside_step_ = was_inside;
  window_seconds_ = 0;
  window_images_ = 0;
  parts_.out.row(row);
}

void Trainer::show_progress() {
  const int64_t per_epoch = ceil_div(parts_.train.loader.size(), settings_.accumulate);
  const double rate =
      train_seconds_ > 0 ? static_cast<double>(step_ - resumed_step_) / train_seconds_ : 0;
  Tally so_far = epoch_tally_;
  so_far.join(window_);
  const int64_t evaluations =
      settings_.eval_every > 0 ? (*settings_.epochs - epoch_) / settings_.eval_every + 1 : 1;
  const auto scale = scaler().progress();
  progress_.show({.label = formatted("epoch {}/{}", epoch_, *settings_.epochs),
                  .done = step_ - (epoch_ - 1) * per_epoch,
                  .total = per_epoch,
                  .loss = so_far.loss(),
                  .accuracy = so_far.accuracy(),
                  .lr = last_lr_,
                  .loss_scale = scaler().enabled() ? scale.scale : 0,
                  .skipped_steps = skipped_before_ + scale.skipped,
                  .images_per_second =
                      rate * static_cast<double>(*settings_.batch_size * settings_.accumulate),
                  .data_wait = data_wait(),
                  .eta_seconds = static_cast<double>(total_steps_ - step_) / rate +
                                 evaluation_seconds_ * static_cast<double>(evaluations)});
}

// Logs the epoch's line once the saves that it names are on the disk, after one of the next steps.
void Trainer::say_saved() {
  if (epoch_line_.empty() || !saves_->holds(epoch_saves_)) return;
  progress_.clear();
  parts_.out.sentence(std::exchange(epoch_line_, {}));
}

}  // namespace lathe::cli
