// How a training ends: done, paused, diverged, or by an error; what is saved and said then.
#include <algorithm>
#include <cmath>

#include "lathe/core/error.h"
#include "lathe/tools/cli/count_text.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/shell_word.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/loss_scale.h"
#include "lathe/tools/cli/training/trainer.h"

namespace lathe::cli {

ExitCode Trainer::finish() {
  if (pauses()) return pause();  // a signal arrived while saving
  if (!evaluated_) {
    if (step_ < total_steps_) save_to_go_on();
    evaluate_now();
    if (pauses()) return pause();
    save("last");
  }
  saves_->wait();
  parts_.ranks.meet();  // what the first one has saved is on the disk
  say_saved();
  if (stop_reason() == Stop::kTime) parts_.log.line("the time limit is reached");
  if (stop_reason() == Stop::kNo && stops_early()) {
    parts_.log.line(
        formatted("stopped early: no evaluation since epoch {} was better than {:.2f} %",
                  best_epoch_, 100 * best_accuracy_));
  }
  if (parts_.held_out) saves_->seal_last();  // the state is saved; what follows is not part of it
  const std::optional<Evaluation> held_out = evaluate_best();
  if (pauses()) return pause();
  if (settings_.skip_broken) {
    broken_.report();
    broken_.join(parts_.ranks);
  }
  print_result(held_out);
  parts_.ranks.part();
  if (stop_reason() != Stop::kTime)  // then the run can continue with a smaller scale
    fail_if_all_skipped(settings_, skipped_before_ + scaler().read_progress().skipped, step_);
  const double target =
      settings_.target_acc > 1 ? settings_.target_acc / 100 : settings_.target_acc;
  if (best_accuracy_ < target) {
    throw CommandError(
        ExitCode::kCheckFailed,
        formatted("--target-acc: the best {} accuracy is {:.2f} %, below {:.2f} %",
                  parts_.held_out ? "validation" : "test", 100 * best_accuracy_, 100 * target));
  }
  return ExitCode::kDone;
}

// Looks at the held-out images, with the weights that were chosen; the row of metrics says of which
// epoch they are. The model has its present weights again afterwards: a signal may save them. In a
// new folder a finished run has no best.safetensors; then the present weights have to do, with
// --ema their averages, as in every evaluation.
std::optional<Evaluation> Trainer::evaluate_best() {
  if (!parts_.held_out) return {};
  StateDict trainer;
  const StateDict present = parts_.model.state_dict().clone();
  {  // the file's state, which is larger than the weights, is not held while images are looked at
    const auto [chosen, best] = chosen_weights();
    trainer = checkpoint_section(best, "trainer").clone();
    parts_.model.load_state_dict(!chosen && ema_ ? ema_->module_state()
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
  } restore{parts_.model, present};
  memory_.begin_part();
  Evaluation result = evaluate_on(*parts_.held_out, false);
  if (!result.complete) return {};
  const double loss = result.tally.loss();
  if (!std::isfinite(loss)) {
    parts_.ranks.part();
    throw CommandError(ExitCode::kDiverged,
                       formatted("the test loss of {} is {}",
                                 (folder_ / "best.safetensors").string(), number_text(loss)));
  }
  parts_.out.row(
      add_row({.epoch = trainer.count("epoch"),
               .step = trainer.count("step"),
               .split = "test",
               .loss = loss,
               .accuracy = result.tally.accuracy(),
               .lr = trainer.number<double>("last_lr"),
               .images_per_second = static_cast<double>(result.tally.count()) / result.seconds}));
  return result;
}

double Trainer::save_wait() const {
  return seconds() > 0 ? std::min(saves_->seconds() / seconds(), 1.0) : 0;
}

void Trainer::print_result(const std::optional<Evaluation>& held_out) {
  Row done;
  done.add("event", "done")
      .add("epochs", epoch_)
      .add("steps", step_)
      .add("loss", last_loss_)
      .add("accuracy", last_accuracy_)
      .add("best_accuracy", best_accuracy_)
      .add("best_epoch", best_epoch_)
      .add("seconds", seconds())
      .add("data_wait", data_wait())
      .add("save_wait", save_wait())
      .add("memory_peak_bytes", memory_peak())
      .add("run_dir", folder_.string());
  if (held_out) {
    done.add("test_loss", held_out->tally.loss());
    done.add("test_accuracy", held_out->tally.accuracy());
  }
  if (settings_.skip_broken) done.add("broken_files", broken_.count());
  parts_.out.row(done);
  const std::string tested = held_out ? formatted(", of the best on the test images {:.2f} %",
                                                  100 * held_out->tally.accuracy())
                                      : "";
  parts_.out.sentence(formatted(
      "{} accuracy {:.2f} %, best {:.2f} % (epoch {}){}, {} in {}, {:.1f} % of training "
      "waited for data{}: {}",
      held_out ? "validation" : "test", 100 * last_accuracy_, 100 * best_accuracy_, best_epoch_,
      tested, count_text(step_, "step"), duration_text(seconds()), 100 * data_wait(),
      broken_.count() > 0 ? formatted(", {} skipped", count_text(broken_.count(), "broken file"))
                          : "",
      folder_.string()));
}

// The mean since the last row of metrics is in the checkpoint. Its row is written for readers now,
// and cut off when the run continues.
ExitCode Trainer::pause() {
  save_to_go_on();
  saves_->wait();
  parts_.ranks.meet();  // the checkpoint is on the disk
  progress_.clear();
  say_saved();
  write_window();
  const int asked = signal();
  const std::string by = asked != 0 ? name_of_signal(asked) : "--stop-after";
  const std::string call = formatted("lathe train --resume {}", shell_word(folder_.string()));
  const std::string text =
      formatted("stopped after step {} by {}; {} holds the checkpoint, and {} goes on", step_, by,
                saves_->last_file(),
                on_ranks() ? formatted("{} on {} ranks", call, parts_.ranks.size()) : call);
  if (asked != 0) {
    if (!parts_.is_trial && parts_.ranks.is_first()) parts_.log.error(text);
    return exit_code_of_signal(asked);
  }
  parts_.log.line(text);
  parts_.out.row(Row()
                     .add("event", "stopped")
                     .add("steps", step_)
                     .add("data_wait", data_wait())
                     .add("save_wait", save_wait())
                     .add("run_dir", folder_.string()));
  return ExitCode::kDone;
}

// All ranks have the same losses, so all come here.
void Trainer::fail_diverged(const char* split, double loss) {
  end_at_good_state(
      formatted("the {} loss is {} in step {} (epoch {}); a lower --lr or --clip-grad-norm 1 may "
                "help",
                split, number_text(loss), step_ + 1, epoch_),
      true);
}

// Saves the last state known to be good: the present weights may be bad, or have led to what is.
// What all ranks know they say after rank 0 has saved: a launcher gives it little time afterwards.
void Trainer::end_at_good_state(const std::string& why, bool all_ranks_know) {
  saves_->loss_is_bad();
  const int64_t good = saves_->save_good(step_);
  if (all_ranks_know) parts_.ranks.part();
  throw CommandError(ExitCode::kDiverged, formatted("{}; {} holds the weights of step {}", why,
                                                    saves_->last_file(), good));
}

// False also if a failed device does not say whether the state is good, or does not give it.
bool Trainer::save_if_good() try {
  if (inside_step_ && undo_.undo(window_)) inside_step_ = false;
  if (on_ranks() && (inside_step_ || parts_.train.device.is_cuda())) return false;
  if (!window_is_finite()) return false;
  save("last");
  saves_->wait();
  return true;
} catch (const train::SaveError&) {
  throw;
} catch (const std::exception&) {
  return false;
}

// Called inside a catch block; the error that is being handled stays the one that is reported.
void Trainer::save_after_error() {
  progress_.clear();
  const auto say_what_is_on_disk = [this] {
    try {
      say_saved();
    } catch (const std::exception&) {  // stdout may be what failed
    }
  };
  try {
    throw;
  } catch (const train::SaveError&) {
    return;
  } catch (const CommandError& e) {
    // Saved already. After a loss that is not finite the present state is bad.
    if (e.code() == ExitCode::kDiverged || e.code() == ExitCode::kCheckFailed)
      return say_what_is_on_disk();
  } catch (...) {
  }
  if (!parts_.ranks.is_first()) {  // rank 0 saves, if it can
    parts_.log.line(formatted("stopped in step {}", step_ + 1));
    return;
  }
  try {
    const std::string file = saves_->last_file();
    const bool all_good = save_if_good();
    const int64_t good = all_good ? step_ : saves_->save_good(step_);
    say_what_is_on_disk();
    if (all_good) {
      parts_.log.line(formatted("stopped in step {}; the weights are in {}", step_ + 1, file));
    } else {
      parts_.log.line(
          formatted("stopped in step {}; {} holds the weights of step {}, the last that are known "
                    "to be good",
                    step_ + 1, file, good));
    }
  } catch (const std::exception& e) {
    parts_.log.error(e.what());
  }
}

}  // namespace lathe::cli
