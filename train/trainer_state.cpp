// What a Trainer saves of itself and of its parts, and how it continues from that.
#include <functional>
#include <map>

#include "lathe/core/error.h"
#include "lathe/train/trainer_impl.h"

namespace lathe::train {
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

CheckpointParts Trainer::Impl::parts() {
  CheckpointParts parts = {{"model", task.model},
                           {"optimizer", task.optimizer},
                           {"scheduler", schedule()},
                           {"scaler", scaler()},
                           {"trainer", *this}};
  if (ema) parts.emplace_back("ema", *ema);
  return parts;
}

// The state shares its values with the objects.
Checkpoint Trainer::Impl::checkpoint() {
  safetensors::Metadata about = task.options.metadata;
  about["lathe.epoch"] = std::to_string(at.epoch);
  about["lathe.step"] = std::to_string(at.step);
  if (here.inside_step)
    about[std::string(kInexactKey)] = "made in the middle of a step, after an error";
  return collect_checkpoint(parts(), about);
}

StateDict Trainer::Impl::state_dict() const {
  StateDict out;
  out.add_number("epoch", at.epoch);
  out.add_number("batch", at.batch);
  out.add_number("step", at.step);
  out.add_number("epoch_open", at.epoch_open);
  out.add_number("evaluated", evaluated.now);
  out.add_number(concat("best_", monitor.name), evaluated.best);
  out.add_number("best_epoch", evaluated.best_epoch);
  out.add_number(concat("last_", monitor.name), evaluated.value);
  if (monitor.name != "loss") out.add_number("last_loss", evaluated.loss);
  for (const auto& [name, value] : evaluated.metrics) {
    if (name != monitor.name) out.add_number(concat("last_metric.", name), value);
  }
  if (task.options.schedule_by_epoch) out.add_number("schedule_by_epoch", true);
  out.add_number("last_lr", at.last_lr);
  out.add_number("skipped_steps", here.skipped_before + scaler().read_progress().skipped);
  out.add_number("metrics_rows", at.rows);
  out.add_all("window.", sums.window.state_dict());
  out.add_all("epoch_tally.", sums.epoch.state_dict());
  return out;
}

namespace {

// The metric that chose the best of a run.
std::string monitor_of(const StateDict& trainer) {
  for (const auto& [name, value] : trainer) {
    if (name.starts_with("best_") && name != "best_epoch") return name.substr(5);
  }
  return "";
}

}  // namespace

void Trainer::Impl::load_state_dict(const StateDict& state) {
  LATHE_CHECK(ValueError, !monitor_of(state).empty(), "trainer: the state does not fit: missing ",
              state.full_name("best_"), monitor.name);
  LATHE_CHECK(ValueError, monitor_of(state) == monitor.name,
              "trainer: the saved run chose its best checkpoint by ", monitor_of(state),
              ", but monitor is \"", monitor.name, "\"; set monitor = \"", monitor_of(state),
              "\" to resume it");
  LATHE_CHECK(ValueError, state.contains("schedule_by_epoch") == task.options.schedule_by_epoch,
              "trainer: the saved run advanced its schedule once ",
              task.options.schedule_by_epoch ? "a step, but schedule_by_epoch is true"
                                             : "an epoch, but schedule_by_epoch is false");
  const StateDict own = state_dict();
  for (const auto& [name, value] : state) {
    const bool is_of_sums = name.starts_with("window.") || name.starts_with("epoch_tally.");
    const bool is_of_metric = name.starts_with("last_metric.");  // perhaps one of the past
    LATHE_CHECK(ValueError, is_of_sums || is_of_metric || own.contains(name),
                "trainer: the state does not fit: unexpected ", state.full_name(name));
  }
  // Everything is read before anything changes.
  const Position to{.epoch = state.count("epoch"),
                    .step = state.count("step"),
                    .batch = state.count("batch"),
                    .rows = state.count("metrics_rows"),
                    .epoch_open = state.number<bool>("epoch_open"),
                    .last_lr = state.number<double>("last_lr")};
  Evaluated found{.now = state.number<bool>("evaluated"),
                  .loss = state.number<double>("last_loss"),
                  .value = state.number<double>(concat("last_", monitor.name)),
                  .best = state.number<double>(concat("best_", monitor.name)),
                  .best_epoch = state.count("best_epoch")};
  for (const std::string& name : metric_names()) {
    const std::string last = concat("last_metric.", name);
    if (name == monitor.name) found.metrics.emplace_back(name, found.value);
    if (state.contains(last)) found.metrics.emplace_back(name, state.number<double>(last));
  }
  const int64_t skipped = state.count("skipped_steps");
  Tally window(task.sums), epoch_tally(task.sums);
  window.load_state_dict(state.section("window."), device);
  epoch_tally.load_state_dict(state.section("epoch_tally."), device);
  LATHE_CHECK(ValueError, !to.epoch_open || to.epoch >= 1,
              "trainer: the saved run is inside of epoch ", to.epoch, ", but epochs count from 1");

  at = to;
  evaluated = found;
  here.skipped_before = skipped;
  sums.window = std::move(window);
  sums.epoch = std::move(epoch_tally);
}

std::vector<std::string> Trainer::Impl::metric_names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : sums.window.values()) names.push_back(name);
  return names;
}

int64_t Trainer::Impl::resume(const Checkpoint& from, const std::string& name,
                              const Unchanged& same) {
  prepare();
  const Checkpoint asked = with_settings(from, task.optimizer, scaler());
  restore_checkpoint(same.evaluated ? asked : without_losses(asked, schedule()), parts(), name);
  here.begin_step = at.step;
  if (!same.evaluated) {
    evaluated.now = false;
    evaluated.best = -1;
    evaluated.best_epoch = 0;
  }
  if (!same.batches && at.epoch_open) {  // the epoch starts again
    at.batch = 0;
    sums.window.clear();
    sums.epoch.clear();
  }
  return at.step;
}

int64_t Trainer::resume(const Checkpoint& from, const std::string& name, const Unchanged& same) {
  return impl_->resume(from, name, same);
}

std::vector<std::string> Trainer::misfits(const Checkpoint& from) { return impl_->misfits(from); }

std::vector<std::string> Trainer::Impl::misfits(const Checkpoint& from) {
  prepare();
  std::vector<std::string> names;
  const Checkpoint asked = with_settings(from, task.optimizer, scaler());
  for (const CheckpointPart& part : parts()) {
    try {
      part.load(checkpoint_section(asked, part.name()));
    } catch (const Error&) {
      names.push_back(part.name());
    }
  }
  return names;
}

}  // namespace lathe::train
