// How a training begins: its parts, and the run folder of a new run or of one that goes on.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/distributed/sync_batch_norm.h"
#include "lathe/train/losses.h"
#include "lathe/train/run_checkpoints.h"
#include "lathe/train/trainer_impl.h"

namespace lathe::train {
namespace {

namespace fs = std::filesystem;

/// The learning rate stays as it is set.
class KeptRate final : public optim::LRScheduler {
 public:
  explicit KeptRate(optim::Optimizer& optimizer) : LRScheduler(optimizer) { start(); }
  double lr_at(int64_t, double before, double) const override { return before; }
};

void check(const TrainerOptions& o) {
  const auto not_negative = [](const char* name, double value) {
    LATHE_CHECK(ValueError, value >= 0 && !std::isnan(value), "train::Trainer: ", name,
                " must not be negative, got ", value);
  };
  not_negative("epochs", static_cast<double>(o.epochs));
  not_negative("max_steps", static_cast<double>(o.max_steps));
  not_negative("time_limit", o.time_limit);
  not_negative("early_stopping", static_cast<double>(o.early_stopping));
  not_negative("pause_after", static_cast<double>(o.pause_after));
  not_negative("eval_every", static_cast<double>(o.eval_every));
  not_negative("save_every", static_cast<double>(o.save_every));
  LATHE_CHECK(ValueError, o.amp == "off" || o.amp == "bf16" || o.amp == "fp16",
              "train::Trainer: amp must be off, bf16 or fp16, got \"", o.amp, "\"");
  LATHE_CHECK(ValueError, o.accumulate >= 1, "train::Trainer: accumulate must be at least 1, got ",
              o.accumulate);
  LATHE_CHECK(ValueError, o.clip_grad_norm >= 0 && std::isfinite(o.clip_grad_norm),
              "train::Trainer: clip_grad_norm must be finite and not negative, got ",
              o.clip_grad_norm);
  LATHE_CHECK(ValueError, o.ema >= 0 && o.ema < 1,
              "train::Trainer: ema must be from 0 to below 1, got ", o.ema);
  LATHE_CHECK(ValueError, o.log_every >= 1, "train::Trainer: log_every must be at least 1, got ",
              o.log_every);
  LATHE_CHECK(ValueError, o.keep >= 1, "train::Trainer: keep must be at least 1, got ", o.keep);
  LATHE_CHECK(ValueError, o.resume != "auto" || !o.run_dir.empty(),
              "train::Trainer: resume is \"auto\", which needs a run_dir");
}

/// Metrics are columns beside these.
constexpr std::string_view kColumns[] = {"epoch",
                                         "step",
                                         "split",
                                         "loss",
                                         "lr",
                                         "images_per_second",
                                         "samples_per_second",
                                         "time",
                                         "schema",
                                         "loss_scale",
                                         "skipped_steps"};

void check_names(const std::vector<Metric>& metrics, bool has_accuracy) {
  std::set<std::string_view> names(std::begin(kColumns), std::end(kColumns));
  if (has_accuracy) names.insert("accuracy");
  for (const Metric& metric : metrics) {
    LATHE_CHECK(
        ValueError, !metric.name().starts_with("memory_") && names.insert(metric.name()).second,
        "train::Trainer: a metric needs a name of its own, and \"", metric.name(), "\" is taken");
  }
}

// For kOptionsKey.
std::string text_of(const TrainerOptions& o, const optim::Optimizer& optimizer) {
  return concat("optimizer = \"", optimizer.name(), "\"\n",
                o.schedule == nullptr ? "scheduler = \"none\"\n" : "", "epochs = ", o.epochs,
                "\nmax_steps = ", o.max_steps, "\nearly_stopping = ", o.early_stopping,
                "\namp = \"", o.amp, "\"\naccumulate = ", o.accumulate,
                "\nclip_grad_norm = ", o.clip_grad_norm, "\nema = ", o.ema,
                "\neval_every = ", o.eval_every, "\nlog_every = ", o.log_every, "\n");
}

Device device_of(nn::Module& model) {
  const Tensors parameters = model.parameters();
  LATHE_CHECK(ValueError, !parameters.empty(), "train::Trainer: the model has no parameters");
  return parameters.front().device();
}

}  // namespace

Trainer::Impl::Impl(Trainer& trainer, nn::Module& model, optim::Optimizer& optimizer,
                    TrainerOptions options)
    : self(trainer),
      task{.model = model, .optimizer = optimizer, .options = std::move(options)},
      device(device_of(model)),
      ranks(task.options.group),
      constant(std::make_unique<KeptRate>(optimizer)),
      memory(device),
      undo(model) {
  check(task.options);
}

void Trainer::Impl::prepare() {
  if (step) return;
  TrainerOptions& o = task.options;
  if (!task.loss) {
    task.loss = classification(task.model);
    task.sums.scores = true;
  }
  // Scores count "accuracy" by themselves.
  if (task.sums.scores)
    std::erase_if(task.sums.metrics, [](const Metric& m) { return is_accuracy(m); });
  const std::vector<Metric>& metrics = task.sums.metrics;
  check_names(metrics, task.sums.scores);
  monitor.name = !o.monitor.empty() ? o.monitor
                 : task.sums.scores ? "accuracy"
                 : !metrics.empty() ? metrics.front().name()
                                    : "loss";
  const auto chosen = std::ranges::find(metrics, monitor.name, &Metric::name);
  const bool is_own = monitor.name == "loss" || (monitor.name == "accuracy" && task.sums.scores);
  LATHE_CHECK(ValueError, is_own || chosen != metrics.end(), "train::Trainer: monitor is \"",
              monitor.name, "\", but there is no such metric");
  monitor.better = monitor.name == "loss" ? Better::kLower
                   : is_own               ? Better::kHigher
                                          : chosen->better();
  sums = {.window = Tally(task.sums), .epoch = Tally(task.sums), .evaluation = Tally(task.sums)};

  if (o.ema > 0) ema.emplace(task.model, optim::EMAOptions{.decay = o.ema, .warm_up = true});
  const bool syncs = on_ranks() && o.sync_batch_norm;
  if (syncs) distributed::convert_sync_batch_norm(ranks.group(), task.model);
  step = std::make_unique<Step>(
      task.model, task.optimizer, [this](const Tensors& batch) { return forward(batch); },
      StepOptions{.amp = o.amp,
                  .scaling = o.scaling,
                  .accumulate = o.accumulate,
                  .clip_grad_norm = o.clip_grad_norm,
                  .recompute = o.recompute,
                  .ema = ema ? &*ema : nullptr,
                  .group = o.group,
                  .capture = o.capture && !syncs});  // its host looks at the values of all ranks
}

void Trainer::use_folder(const fs::path& folder, bool goes_on, std::optional<double> kept) {
  impl_->files.folder = folder;
  impl_->files.goes_on = goes_on;
  impl_->evaluated.kept = kept;
}

// The run folder that options name, absolute: the program may change its directory. Empty: none.
fs::path Trainer::Impl::folder_asked_for() const {
  const TrainerOptions& o = task.options;
  const bool is_run = !o.resume.empty() && o.resume != "auto" && is_folder(o.resume);
  const fs::path asked = is_run ? fs::path(o.resume) : o.run_dir;
  LATHE_CHECK(
      ValueError,
      !is_run || o.run_dir.empty() || (is_folder(o.run_dir) && is_same_file(o.run_dir, o.resume)),
      "train::Trainer: resume names the run in ", o.resume, ", run_dir ", o.run_dir.string(),
      ": leave out one of them");
  if (asked.empty()) return {};
  std::error_code reason;
  const fs::path absolute = fs::absolute(asked, reason);
  LATHE_CHECK(FileError, !reason, asked.string(), ": ", reason.message());
  return absolute;
}

// What rank 0 finds for options.resume: the checkpoint, and whether the folder holds its run.
std::optional<FoundCheckpoint> Trainer::Impl::find_checkpoint() {
  const TrainerOptions& o = task.options;
  const bool is_auto = o.resume == "auto";
  const bool is_file = !o.resume.empty() && !is_auto && !is_folder(o.resume);
  const bool holds = !files.folder.empty() && is_folder(files.folder) && holds_run(files.folder);
  const auto warn = [this](const std::string& text) { say(MessageKind::kWarning, text); };
  std::optional<FoundCheckpoint> from;
  if (is_file) {
    from = FoundCheckpoint{o.resume, read_checkpoint(o.resume)};
    const fs::path home = from->file.has_parent_path() ? from->file.parent_path() : fs::path(".");
    files.goes_on = holds && is_same_file(files.folder, home);
  } else {
    files.goes_on = holds && !o.resume.empty();
  }
  LATHE_CHECK(ValueError, !holds || files.goes_on, "train::Trainer: ", files.folder.string(),
              " already holds a run; resume = \"auto\" goes on with it");
  if (!files.goes_on) {
    LATHE_CHECK(DataError, is_auto || is_file || o.resume.empty(), files.folder.string(),
                " holds no checkpoint");
    return from;
  }
  files.lock = std::make_unique<RunLock>(files.folder);
  if (is_file) return from;
  from = newest_checkpoint(files.folder, warn);
  LATHE_CHECK(DataError, from || is_auto, files.folder.string(), " holds no checkpoint");
  if (!from) {  // killed before its first checkpoint
    set_metrics_aside(files.folder, warn);
    clean_run_folder(files.folder, -1);
    files.goes_on = false;
  }
  return from;
}

// Finds the start that options ask for, takes the state of the run so far, and then the folder.
void Trainer::Impl::find_start() {
  const TrainerOptions& o = task.options;
  if (o.run_dir.empty() && o.resume.empty()) return;
  std::optional<FoundCheckpoint> from;
  if (ranks.is_first()) {
    files.folder = folder_asked_for();
    from = find_checkpoint();
  }
  files.folder = ranks.from_first(files.folder.string());
  files.goes_on = ranks.from_first(std::string(files.goes_on ? "1" : "0")) == "1";
  std::optional<Checkpoint> checkpoint;
  if (from) checkpoint = std::move(from->checkpoint);
  checkpoint = ranks.from_first(checkpoint);
  if (checkpoint) take_state(*checkpoint, from ? from->file.string() : files.folder.string());
  if (!ranks.is_first() || files.folder.empty()) return;
  if (!files.lock) {  // what cannot be taken has left no trace
    claim_run_folder(files.folder);
    files.lock = std::make_unique<RunLock>(files.folder);
  }
  if (from)
    evaluated.kept = go_back(files.folder, from->file, *checkpoint, at.step, o.keep, monitor.name);
}

// The state of a checkpoint, and what it says of its run.
void Trainer::Impl::take_state(const Checkpoint& checkpoint, const std::string& name) {
  const int64_t size = inputs.train->size();
  const auto batches = checkpoint.metadata.find(kBatchesKey);
  const bool same =
      batches == checkpoint.metadata.end() || size < 0 || batches->second == std::to_string(size);
  if (!same) {
    say(MessageKind::kWarning,
        concat("the run had ", batches->second, " batches in an epoch and now has ", size,
               ": an unfinished epoch starts again"));
  }
  resume(checkpoint, name, {.batches = same});
  if (!files.goes_on) at.rows = 0;
  // What another program, as the command, says of the run stays in its checkpoints.
  for (const auto& [key, value] : checkpoint.metadata) {
    const bool is_of_state = key == "lathe.checkpoint" || key == "lathe.parts" ||
                             key == "lathe.epoch" || key == "lathe.step" || key == kBatchesKey ||
                             key == kOptionsKey || key == kInexactKey || key == kWentBackKey;
    if (!is_of_state) task.options.metadata.emplace(key, value);
  }
}

// What comes after the start is known, and before the first step.
void Trainer::Impl::open() {
  const TrainerOptions& o = task.options;
  std::string same = concat("batches ", inputs.train->size(), "\nmonitor ", monitor.name);
  for (const Metric& metric : task.sums.metrics) same += concat("\nmetric ", metric.name());
  ranks.check_same("train::Trainer", same);
  if (inputs.train->size() >= 0) {
    const int64_t per_epoch = ceil_div(inputs.train->size(), o.accumulate);
    const int64_t rest =
        at.epoch_open ? ceil_div(inputs.train->size() - at.batch, o.accumulate) : 0;
    here.total_steps = at.step + rest + std::max<int64_t>(o.epochs - at.epoch, 0) * per_epoch;
  } else {
    here.total_steps = std::numeric_limits<int64_t>::max();
  }
  if (o.max_steps > 0) here.total_steps = std::min(here.total_steps, o.max_steps);
  // A run that had ended did not set the learning rate of the step, or epoch, that now follows.
  const int64_t begun = o.schedule_by_epoch ? at.epoch - (at.epoch_open ? 1 : 0) : at.step;
  if (at.step < here.total_steps && schedule().last_epoch() < begun) schedule().step();
  if (files.folder.empty()) {
    files.saves.emplace(files.folder, o.keep, nullptr);
    return;
  }
  // What the first rank found decides on all ranks which files are saved: they meet before each.
  if (on_ranks()) {
    const std::string kept =
        ranks.from_first(evaluated.kept ? concat(*evaluated.kept) : std::string("none"));
    evaluated.kept = kept == "none" ? std::nullopt : std::optional(std::stod(kept));
  }
  if (evaluated.best_epoch == 0) evaluated.kept.reset();
  if (evaluated.kept && (monitor.better == Better::kHigher ? evaluated.best < *evaluated.kept
                                                           : evaluated.best > *evaluated.kept))
    evaluated.kept = evaluated.best;
  if (files.lock) {
    if (inputs.train->size() >= 0)
      task.options.metadata[std::string(kBatchesKey)] = std::to_string(inputs.train->size());
    task.options.metadata[std::string(kOptionsKey)] = text_of(o, task.optimizer);
  }
  std::function<Checkpoint()> present;
  if (ranks.is_first()) present = [this] { return checkpoint(); };
  files.saves.emplace(files.folder, o.keep, std::move(present));
  const bool has_last = ranks.is_first() && is_there(files.folder / "last.safetensors");
  if (ranks.from_first(std::string(has_last ? "1" : "0")) == "1") files.saves->found_last();
}

}  // namespace lathe::train
