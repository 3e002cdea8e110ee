// What a Trainer saves of itself and of its parts, and how it continues from that.
#include <functional>
#include <map>

#include "lathe/core/error.h"
#include "lathe/tools/cli/training/trainer.h"

namespace lathe::cli {
namespace {

using Replacements = std::map<std::string, Tensor, std::less<>>;

void replace_number(Replacements& out, const std::string& name, double value) {
  StateDict number;
  number.add_number(name, value);
  out.insert_or_assign(name, number.at(name));
}

// The optimiser's entries of a checkpoint that the present settings replace: its hyper-parameters.
// The learning rate in use is scaled with the initial one, so that the schedule's factor stays.
Replacements settings_of(const optim::Optimizer& optimizer, const StateDict& saved) {
  Replacements out;
  const StateDict here = optimizer.state_dict();
  for (size_t g = 0; g < optimizer.num_groups(); ++g) {
    const std::string group = concat("group.", g, ".");
    for (const auto& [name, value] : here.section(group)) {
      if (name != "params" && name != "lr") out.emplace(concat("optimizer.", group, name), value);
    }
    const double initial = optimizer.initial_lr(g);
    const Tensor* before = saved.find(concat("optimizer.", group, "initial_lr"));
    if (before == nullptr || before->numel() != 1 || before->item<double>() == initial) continue;
    for (const char* part : {"optimizer.", "scheduler."}) {
      const std::string name = concat(part, group, "lr");
      const Tensor* rate = saved.find(name);
      if (rate == nullptr || rate->numel() != 1) continue;
      const double then = before->item<double>();
      replace_number(out, name, then > 0 ? rate->item<double>() * (initial / then) : initial);
    }
  }
  return out;
}

// The same for the loss scale, which is a setting unless it is dynamic.
Replacements settings_of(const optim::GradScaler& scaler) {
  Replacements out;
  const bool dynamic = scaler.options().dynamic;
  for (const auto& [name, value] : scaler.state_dict()) {
    if (name == "growth_interval" || (name == "scale" && !dynamic))
      out.emplace(concat("scaler.", name), value);
  }
  return out;
}

Checkpoint with(const Replacements& others, const Checkpoint& from) {
  Checkpoint out{.tensors = {}, .metadata = from.metadata, .has_checksum = from.has_checksum};
  for (const auto& [name, value] : from.tensors) {
    const auto other = others.find(name);
    out.tensors.add(name, other == others.end() ? value : other->second);
  }
  return out;
}

// Entries that are settings and not state. They agree with the call unless --allow-changes let them
// change.
Checkpoint with_settings(const Checkpoint& from, const optim::Optimizer& optimizer,
                         const optim::GradScaler& scaler) {
  Replacements settings = settings_of(optimizer, from.tensors);
  settings.merge(settings_of(scaler));
  return with(settings, from);
}

// The best loss that a schedule remembers is one of other images: that of a new schedule instead.
Checkpoint without_losses(const Checkpoint& from, const optim::LRScheduler& fresh) {
  Replacements memory;
  for (const auto& [name, value] : fresh.memory())
    memory.emplace(concat("scheduler.", name), value);
  return with(memory, from);
}

}  // namespace

CheckpointParts Trainer::checkpoint_parts() {
  CheckpointParts parts = {{"model", parts_.model},
                           {"optimizer", optimizer_},
                           {"scheduler", parts_.schedule},
                           {"scaler", scaler()},
                           {"trainer", *this}};
  if (ema_) parts.emplace_back("ema", *ema_);
  return parts;
}

// The state shares its values with the objects.
Checkpoint Trainer::checkpoint() {
  safetensors::Metadata about = parts_.about;
  about["lathe.model"] = *settings_.model;
  about["lathe.dataset"] = *settings_.dataset;
  about["lathe.epoch"] = std::to_string(epoch_);
  about["lathe.step"] = std::to_string(step_);
  if (inside_step_)
    about[std::string(train::kInexactKey)] = "made inside of a step, after an error";
  return collect_checkpoint(checkpoint_parts(), about);
}

StateDict Trainer::state_dict() const {
  StateDict out;
  out.add_number("epoch", epoch_);
  out.add_number("batch", batch_);
  out.add_number("step", step_);
  out.add_number("epoch_open", epoch_open_);
  out.add_number("evaluated", evaluated_);
  out.add_number("best_accuracy", best_accuracy_);
  out.add_number("best_epoch", best_epoch_);
  out.add_number("last_accuracy", last_accuracy_);
  out.add_number("last_loss", last_loss_);
  out.add_number("last_lr", last_lr_);
  out.add_number("skipped_steps", skipped_before_ + scaler().read_progress().skipped);
  out.add_number("metrics_rows", metrics_ ? metrics_->rows() : resumed_rows_);
  out.add_all("window.", window_.state_dict());
  out.add_all("epoch_tally.", epoch_tally_.state_dict());
  return out;
}

void Trainer::load_state_dict(const StateDict& state) {
  // Everything is read before anything changes.
  const int64_t epoch = state.count("epoch"), batch = state.count("batch");
  const int64_t step = state.count("step"), best_epoch = state.count("best_epoch");
  const int64_t skipped = state.count("skipped_steps"), rows = state.count("metrics_rows");
  const bool epoch_open = state.number<bool>("epoch_open");
  const bool evaluated = state.number<bool>("evaluated");
  const auto best_accuracy = state.number<double>("best_accuracy");
  const auto last_accuracy = state.number<double>("last_accuracy");
  const auto last_loss = state.number<double>("last_loss");
  const auto last_lr = state.number<double>("last_lr");
  Tally window, epoch_tally;
  window.load_state_dict(state.section("window."), parts_.train.device);
  epoch_tally.load_state_dict(state.section("epoch_tally."), parts_.train.device);
  LATHE_CHECK(ValueError, !epoch_open || epoch >= 1, "trainer: inside of epoch ", epoch);

  epoch_ = epoch;
  batch_ = batch;
  step_ = step;
  epoch_open_ = epoch_open;
  evaluated_ = evaluated;
  best_accuracy_ = best_accuracy;
  best_epoch_ = best_epoch;
  last_accuracy_ = last_accuracy;
  last_loss_ = last_loss;
  last_lr_ = last_lr;
  skipped_before_ = skipped;
  resumed_rows_ = rows;
  window_ = std::move(window);
  epoch_tally_ = std::move(epoch_tally);
}

int64_t Trainer::resume(const Checkpoint& from, const std::string& name, const Unchanged& same) {
  const Checkpoint asked = with_settings(from, optimizer_, scaler());
  restore_checkpoint(same.evaluated ? asked : without_losses(asked, parts_.schedule),
                     checkpoint_parts(), name);
  resumed_step_ = step_;
  if (!same.evaluated) {
    evaluated_ = false;
    best_accuracy_ = -1;
    best_epoch_ = 0;
  }
  if (!same.batches && epoch_open_) {  // the epoch starts again
    batch_ = 0;
    window_.clear();
    epoch_tally_.clear();
  }
  // A run that had ended did not set the learning rate of the step that now follows.
  if (step_ < total_steps_ && parts_.schedule.last_epoch() < step_) parts_.schedule.step();
  return step_;
}

std::vector<std::string> Trainer::misfits(const Checkpoint& from) {
  std::vector<std::string> names;
  const Checkpoint asked = with_settings(from, optimizer_, scaler());
  for (const CheckpointPart& part : checkpoint_parts()) {
    try {
      part.load(checkpoint_section(asked, part.name()));
    } catch (const Error&) {
      names.push_back(part.name());
    }
  }
  return names;
}

}  // namespace lathe::cli
