// How a training ends: done, paused, diverged, or by an error; what is saved and said then.
#include <cmath>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/train/trainer_impl.h"

namespace lathe::train {

FitResult Trainer::Impl::finish() {
  if (pauses()) return pause();  // a signal arrived while saving
  if (!evaluated.now && inputs.validation != nullptr) {
    if (at.step < here.total_steps) save_to_go_on();
    evaluate_now();
    if (pauses()) return pause();
    save("last");
  }
  files.saves->wait();
  ranks.meet();  // what the first one has saved is on the disk
  tell_epochs();
  const std::optional<End> reason = ends();
  const bool epochs_are_over = at.epoch >= task.options.epochs && !at.epoch_open;
  const End end = epochs_are_over ? End::kEpochs
                  : reason        ? *reason
                  : stops_early() ? End::kEarly
                                  : End::kEpochs;
  tell([&](Observer& o) { o.on_trained(self, reason == End::kTime ? End::kTime : end); });
  if (inputs.test != nullptr)
    files.saves->seal_last();  // the state is saved; what follows is not part of it
  const std::optional<Evaluation> tested = evaluate_test();
  if (pauses()) return pause();
  FitResult out = result(reason == End::kTime ? End::kTime : end);
  if (tested) {
    out.tested = true;
    out.test_loss = tested->tally.loss();
    out.test_metrics = tested->tally.values();
  }
  tell([&](Observer& o) { o.on_end(self, out); });
  ranks.part();
  return out;
}

FitResult Trainer::Impl::result(End end) const {
  return {.end = end,
          .signal = end == End::kSignal ? signal() : 0,
          .epochs = at.epoch,
          .steps = at.step,
          .loss = inputs.validation != nullptr ? evaluated.loss : sums.epoch.loss(),
          .metrics = inputs.validation != nullptr ? evaluated.metrics : sums.epoch.values(),
          .evaluated = evaluated.now || evaluated.best_epoch > 0,
          .best = evaluated.best,
          .best_epoch = evaluated.best_epoch,
          .seconds = seconds(),
          .data_wait = data_wait(),
          .save_wait = save_wait(),
          .memory_peak = memory.peak(),
          .skipped_steps = here.skipped_before + scaler().read_progress().skipped};
}

// The mean since the last row of metrics is in the checkpoint. Its row is written for readers now,
// and cut off when the run continues.
FitResult Trainer::Impl::pause() {
  save_to_go_on();
  files.saves->wait();
  ranks.meet();  // the checkpoint is on the disk
  tell_epochs();
  write_window();
  const FitResult out = result(*ends());
  tell([&](Observer& o) { o.on_end(self, out); });
  return out;
}

// Saves at the time limit or a stop. What is evaluated and written after this is only for readers:
// the run that continues would not have done it
void Trainer::Impl::save_to_go_on() {
  if (files.saves->last_is_sealed()) return;
  if (!window_is_finite()) fail_diverged("train", sums.window.loss());
  save("last");
  files.saves->seal_last();
}

// All ranks have the same losses, so all come
void Trainer::Impl::fail_diverged(const char* split, double loss) {
  const bool is_evaluation = split != std::string_view("train");
  end_at_good_state(
      DivergedError::Kind::kLoss,
      formatted("the {} loss is {} {} step {} (epoch {})", split, number_text(loss),
                is_evaluation ? "after" : "in", at.step + (is_evaluation ? 0 : 1), at.epoch),
      true);
}

std::string Trainer::Impl::saved_text(int64_t good) const {
  if (files.folder.empty()) return "";
  return formatted("; {} holds the weights of step {}", files.saves->last_file(), good);
}

// Saves the last state known to be good: the present weights may be bad, or have led to what is.
// What all ranks know they say after rank 0 has saved: a launcher gives it little time afterwards.
void Trainer::Impl::end_at_good_state(DivergedError::Kind kind, const std::string& why,
                                      bool all_ranks_know) {
  files.saves->loss_is_bad();
  const int64_t good = files.saves->save_good(at.step);
  if (all_ranks_know) ranks.part();
  throw DivergedError(kind, why, saved_text(good));
}

// False also if a failed device does not say whether the state is good, or does not give it.
bool Trainer::Impl::save_if_good() try {
  if (here.inside_step && undo.undo(sums.window)) here.inside_step = false;
  if (on_ranks() && (here.inside_step || device.is_cuda())) return false;
  if (!window_is_finite()) return false;
  save("last");
  files.saves->wait();
  return true;
} catch (const SaveError&) {
  throw;
} catch (const std::exception&) {
  return false;
}

// Called inside a catch block; the error that is being handled stays the one that is reported.
void Trainer::Impl::save_after_error() {
  const auto say_what_is_on_disk = [this] {
    try {
      tell_epochs();
    } catch (...) {  // stdout may be what failed
    }
  };
  try {
    throw;
  } catch (const SaveError&) {
    return;
  } catch (const DivergedError&) {  // saved already; the present state is bad
    return say_what_is_on_disk();
  } catch (...) {
  }
  try {
    if (!ranks.is_first()) {  // rank 0 saves, if it can
      return say(MessageKind::kNote, formatted("stopped in step {}", at.step + 1));
    }
    const std::string file = files.saves->last_file();
    const bool all_good = save_if_good();
    const int64_t good = all_good ? at.step : files.saves->save_good(at.step);
    say_what_is_on_disk();
    if (files.folder.empty()) return;
    say(MessageKind::kNote,
        all_good
            ? formatted("stopped in step {}; the weights are in {}", at.step + 1, file)
            : formatted("stopped in step {}; {} holds the weights of step {}, the last that are "
                        "known to be good",
                        at.step + 1, file, good));
  } catch (const std::exception& e) {
    try {
      say(MessageKind::kError, e.what());
    } catch (...) {  // the error that is being handled stays the one that is reported
    }
  } catch (...) {
  }
}

}  // namespace lathe::train
