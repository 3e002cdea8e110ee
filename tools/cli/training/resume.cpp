// --resume: finding the checkpoint, merging its settings, comparing them with those of the call.
#include "lathe/tools/cli/training/resume.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/formats/tensor_file.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/config_file.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/settings/training_recipes.h"
#include "lathe/tools/cli/settings/without_effect.h"
#include "lathe/tools/cli/training/given_flags.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/program_run.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/train/run_checkpoints.h"
#include "lathe/train/run_folder.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

// Settings that change neither a parameter nor a row of metrics and are not kept in checkpoints.
// For exceptions see is_free().
constexpr std::string_view kFree[] = {
    "data-root",      "download",    "workers",   "prefetch-factor", "pin-memory", "data-cache",
    "algo-cache",     "capture",     "recompute", "save-every",      "keep",       "target-acc",
    "time-limit",     "dry-run",     "run-dir",   "resume",          "stop-after", "allow-changes",
    "progress",       "tensorboard", "profile",   "profile-steps",   "json",       "quiet",
    "detect-anomaly", "sync"};
// How long to train and what to write: these may change.
constexpr std::string_view kLength[] = {"epochs", "max-steps", "eval-every", "log-every",
                                        "early-stopping"};
// How the same numbers are computed: another choice rounds differently.
constexpr std::string_view kRounding[] = {
    "device",        "threads",         "conv-exact",      "layout",    "tf32",
    "deterministic", "cudnn-benchmark", "workspace-limit", "data-cache"};
// Which samples are in which batch.
constexpr std::string_view kBatches[] = {"batch-size",     "accumulate", "drop-last", "seed",
                                         "synthetic-size", "dataset",    "data-root", "val-split"};
// Which images evaluations look at, and in which views. With --val-split and for made images the
// seed decides, too.
constexpr std::string_view kEvaluated[] = {"synthetic-size", "dataset", "data-root", "val-split",
                                           "tta"};

// Which part of a checkpoint depends on which settings: they must agree with those it was made
// with.
constexpr struct {
  std::string_view key, part;
} kState[] = {{"model", "model"},
              {"stem", "model"},
              {"dataset", "model"},  // they decide classes and channels
              {"data-root", "model"},
              {"lora-rank", "model"},
              {"lora-targets", "model"},
              {"optimizer", "optimizer"},
              {"momentum", "optimizer"},  // after a momentum of 0 there is no buffer to continue
              {"no-decay-norm", "optimizer"},
              {"head-lr", "optimizer"},
              {"bias-lr", "optimizer"},
              {"muon-rest", "optimizer"},
              {"lora-rank", "optimizer"},
              {"lora-targets", "optimizer"},
              {"scheduler", "scheduler"},
              {"warmup-epochs", "scheduler"},
              {"amp", "scaler"},
              {"ema", "ema"}};

template <size_t N>
bool is_one_of(std::string_view key, const std::string_view (&keys)[N]) {
  return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

// Whether --data-root itself decides which images there are.
bool names_images(const Settings& settings) {
  return settings.dataset == "folder" || settings.dataset == "packed";
}

bool chooses_evaluated(const Settings& settings, std::string_view key) {
  if (key == "seed") return settings.val_split > 0 || settings.dataset == "synthetic";
  return is_one_of(key, kEvaluated);
}

bool is_free(const Settings& settings, std::string_view key) {
  if (key == "data-root") return !names_images(settings);
  // With a cache JPEG files are decoded as a whole, otherwise only as finely as needed.
  if (key == "data-cache") return settings.dataset != "folder";
  return is_one_of(key, kFree);
}

// Whether two values of a setting mean the same. Names of a file or folder may differ in form.
// Where one cannot be looked at they count as different, and the run is refused.
bool is_same(const Setting& setting, const std::string& before, const std::string& now) {
  std::error_code unreadable;
  const auto absolute = [](const std::string& name) {
    std::error_code reason;
    const fs::path path = fs::weakly_canonical(name, reason);
    return reason ? fs::path(name) : path;
  };
  const auto freezes_none = [](const std::string& text) { return text.empty() || text == "none"; };
  return before == now || (setting.key == "data-root" && fs::equivalent(before, now, unreadable)) ||
         (setting.key == "model" && is_model_file(before) && absolute(before) == absolute(now)) ||
         (setting.key == "weights" && !before.empty() && absolute(before) == absolute(now)) ||
         (setting.key == "freeze" && freezes_none(before) && freezes_none(now));
}

std::string metadata_text(const Checkpoint& checkpoint, std::string_view key) {
  const auto found = checkpoint.metadata.find(key);
  return found == checkpoint.metadata.end() ? "" : found->second;
}

// The recipe that a run was begun with. It is weaker than what the run says: another one, or none,
// would change its name alone.
std::string recipe_of(const SettingSources& run, const Invocation& call, const fs::path& beside) {
  const std::string begun = merge_settings(run, kTrain).recipe, &asked = call.settings.recipe;
  if (asked == kNoRecipe || asked == begun) return begun;
  throw UsageError(
      formatted("--resume: the run in {} was begun with --recipe {} and keeps its settings, so it "
                "cannot take those of {}: leave out {}",
                beside.string(), begun, asked, place_of(call.sources, *find_setting("recipe"))));
}

// Precedence: flags and environment, the config file of the call, then the checkpoint's settings,
// then the config.toml beside it.
void merge_with_run(StartPoint& start, const Invocation& call, const fs::path& beside, Log& log) {
  SettingSources run;
  if (reading_data([&] { return is_there(beside / "config.toml"); }))
    run.config_path = (beside / "config.toml").string();
  for (const std::string& remark : gone_settings(run)) log.warning(remark);
  if (start.from) {
    if (!start.from->metadata.contains(kConfigKey)) start.record = record_of(*start.from);
    run.saved_config = start.record ? *start.record : metadata_text(*start.from, kConfigKey);
    run.saved_name = start.file.string();
    start.before = merge_settings(run, kTrain);
  }
  const bool goes_on = start.from || !run.config_path.empty();
  const std::string recipe = goes_on ? recipe_of(run, call, beside) : "";
  run.flags = given_flags(call.sources, kTrain);
  if (goes_on) run.flags["recipe"] = recipe;
  run.environment = call.sources.environment;
  start.settings = merge_settings(run, kTrain);
  start.settings.json = call.settings.json;  // how to print is decided by this call alone
  start.settings.quiet = call.settings.quiet;
  start.settings.progress = call.settings.progress;
}

// Weights alone say nothing of the optimiser or of where the run was.
void refuse_weights(const std::string& file) {
  const TensorFileFormat format = tensor_file_format(file);
  const bool is_safetensors = format == TensorFileFormat::kSafetensors;
  if (is_safetensors && !checkpoint_parts(safetensors::read_metadata(file)).empty()) return;
  const std::string_view kind = format == TensorFileFormat::kPth   ? "a file of PyTorch"
                                : format == TensorFileFormat::kNpz ? "a file of NumPy"
                                                                   : "a file of weights";
  throw CommandError(ExitCode::kData,
                     formatted("--resume: {} is {} and has no state of a run of lathe; --weights "
                               "{} begins a new run with its weights",
                               file, kind, file));
}

std::optional<train::FoundCheckpoint> newest_of(const fs::path& folder, Log& log) try {
  return train::newest_checkpoint(folder, [&](const std::string& text) { log.warning(text); });
} catch (const DataError& e) {
  throw CommandError(ExitCode::kData, formatted("--resume: {}", e.message()));
}

}  // namespace

std::unique_ptr<train::RunLock> lock_run(const fs::path& folder) try {
  return std::make_unique<train::RunLock>(folder);
} catch (const LockHeldError& e) {
  throw UsageError(e.message());
} catch (const FileError& e) {
  throw CommandError(ExitCode::kError, e.message());
}

StartPoint find_start(const Invocation& call, Log& log) {
  StartPoint start{.settings = call.settings};
  const std::string& resume = call.settings.resume;
  if (resume.empty()) return start;
  const std::string& run_dir = call.settings.run_dir;
  if (resume == "auto" && run_dir.empty()) throw UsageError("--resume auto needs --run-dir");

  const bool is_auto = resume == "auto";
  const auto is_one_place = [](const fs::path& a, const fs::path& b) {
    return reading_data([&] { return is_same_file(a, b); });
  };
  if (is_auto || reading_data([&] { return is_folder(resume); })) {
    const fs::path folder = is_auto ? run_dir : resume;
    // No run has begun there: start a new one, which finds out what else may be wrong.
    if (is_auto && !reading_data([&] { return train::holds_run(folder); })) return start;
    if (!is_auto && !run_dir.empty() && !is_one_place(folder, run_dir))
      throw UsageError(formatted("--resume FOLDER goes on in that folder: leave out {}",
                                 place_of(call.sources, *find_setting("run-dir"))));
    start.folder = folder;
    start.lock = lock_run(folder);
    if (auto found = reading_data([&] { return newest_of(folder, log); })) {
      start.file = std::move(found->file);
      start.from = std::move(found->checkpoint);
    }
    if (!start.from && !is_auto)
      throw CommandError(ExitCode::kData, formatted("{} holds no checkpoint", folder.string()));
    // A job that ended before its first checkpoint begins anew with the file that it is given: the
    // config.toml beside it holds what was chosen for an earlier one.
    if (!start.from && !call.sources.config_path.empty()) return start;
    merge_with_run(start, call, folder, log);
    return start;
  }

  const Setting& key = *find_setting("resume");
  if (reading_data([&] { return path_kind(resume); }) == PathKind::kNothing)
    throw CommandError(ExitCode::kData,
                       formatted("{}: there is no {}", place_of(call.sources, key), resume));
  if (is_of_config(call.sources, key)) {
    throw UsageError(
        formatted("{} is {}: every start with that config file would go back to this checkpoint; "
                  "write auto or a folder there, or give --resume {} once",
                  place_of(call.sources, key), resume, resume));
  }
  start.file = resume;
  const fs::path home = start.file.has_parent_path() ? start.file.parent_path() : fs::path(".");
  if (run_dir.empty() || is_one_place(home, run_dir)) {
    start.folder = home;
    start.lock = lock_run(home);
  }
  start.from = reading_data([&] {
    refuse_weights(resume);
    return read_checkpoint(resume);
  });
  merge_with_run(start, call, home, log);
  return start;
}

void take_program(Settings& settings, const StartPoint& start, Log& log) {
  if (start.from) take_carried_program(settings, *start.from, start.file.string());
  if (start.from && settings.program && start.before->model) {
    const std::string before = *start.before->model;
    if (!is_same(*find_setting("model"), before, *settings.model))
      log.warning(formatted("--model {} is not read: the run continues with the program in {}",
                            *settings.model, start.file.string()));
    settings.model = before;
    if (settings.new_head && !start.before->new_head)
      log.warning(formatted("--new-head has no effect: the run goes on with the last layer of {}",
                            start.file.string()));
  }
  take_model_file(settings);
}

Unchanged check_changes(const StartPoint& start, const Settings& now, const RunImages& images,
                        int64_t ranks, Log& log) {
  Unchanged same;
  if (!start.from) return same;
  std::string changes, roundings, lengths;
  const auto note = [](std::string& list, std::string_view key, const std::string& before,
                       const std::string& after) {
    const auto shown = [](const std::string& text) { return text.empty() ? "nothing" : text; };
    list += formatted("{}{} {} → {}", list.empty() ? "" : ", ", key, shown(before), shown(after));
  };
  for (const Setting& setting : all_settings()) {
    if (!kTrain.has(setting) || is_free(now, setting.key) || !is_known(start, setting.key))
      continue;
    const std::string before = value_text(*start.before, setting);
    const std::string after = value_text(now, setting);
    if (is_same(setting, before, after)) continue;
    const bool is_length = is_one_of(setting.key, kLength);
    std::string& rest = is_one_of(setting.key, kRounding) ? roundings : changes;
    note(is_length ? lengths : rest, setting.key, before, after);
    if (is_one_of(setting.key, kBatches)) same.batches = false;
    if (chooses_evaluated(now, setting.key)) same.evaluated = false;
  }
  const std::string batches_before = metadata_text(*start.from, train::kBatchesKey);
  if (start.record && !batches_before.empty() && batches_before != std::to_string(images.batches)) {
    note(changes, "batches in an epoch", batches_before, std::to_string(images.batches));
    same.batches = false;
  }
  const std::string images_before = metadata_text(*start.from, kImagesKey);
  if (!start.record && images_before != std::to_string(images.training)) {
    note(changes, "training images", images_before, std::to_string(images.training));
    same.batches = false;
  }
  // The batches of all ranks together stay the same.
  const std::string ranks_before = metadata_text(*start.from, kRanksKey);
  if (!start.record && (ranks_before.empty() ? "1" : ranks_before) != std::to_string(ranks))
    note(changes, "ranks", ranks_before.empty() ? "1" : ranks_before, std::to_string(ranks));
  const std::string evaluated_before = metadata_text(*start.from, kEvaluatedKey);
  if (!evaluated_before.empty() && evaluated_before != images.evaluated) {
    note(changes, "evaluated", evaluated_before, images.evaluated);
    same.evaluated = false;
  }
  if (!changes.empty() && !now.allow_changes) {
    throw UsageError(formatted(
        "--resume: {} was made with other settings ({}); --allow-changes resumes it anyway",
        start.file.string(), changes));
  }
  if (!changes.empty())
    log.warning(formatted("changed since {}: {}", start.file.string(), changes));
  if (!lengths.empty()) log.line(formatted("other than before: {}", lengths));
  if (!roundings.empty())
    log.warning(formatted("numbers may round differently from here on: {}", roundings));
  if (const std::string why = metadata_text(*start.from, train::kInexactKey); !why.empty())
    log.warning(
        formatted("training goes on from {}, but not with the bits of an uninterrupted run: {}",
                  start.file.string(), why));
  return same;
}

void fail_misfit(const StartPoint& start, const Settings& now,
                 const std::vector<std::string>& parts, const std::string& why) {
  std::string changes;
  for (const auto& [key, part] : kState) {
    const Setting& setting = *find_setting(key);
    const std::string before = value_text(*start.before, setting);
    const std::string after = value_text(now, setting);
    const bool is_said = changes.find(formatted("--{} ", key)) != std::string::npos;
    if (is_said || is_same(setting, before, after) || is_free(now, key) || !is_known(start, key) ||
        std::ranges::find(parts, part) == parts.end())
      continue;
    changes += formatted("{}--{} {} (it was made with {})", changes.empty() ? "" : ", ", key, after,
                         before);
  }
  if (changes.empty()) throw CommandError(ExitCode::kData, why);
  throw UsageError(formatted("--resume: {} does not fit {}, with or without --allow-changes",
                             start.file.string(), changes));
}

int64_t length_of_run(const StartPoint& start, bool same_batches, int64_t epochs,
                      int64_t per_epoch) {
  if (same_batches) return epochs * per_epoch;
  const StateDict trainer = checkpoint_section(*start.from, "trainer");
  const int64_t ended = trainer.count("epoch") - trainer.count("epoch_open");
  return trainer.count("step") + std::max<int64_t>(epochs - ended, 0) * per_epoch;
}

Settings with_absolute_paths(Settings settings) {
  std::string model = settings.model && is_model_file(*settings.model) ? *settings.model : "";
  for (std::string* path : {&settings.data_root, &settings.weights, &settings.algo_cache, &model}) {
    std::error_code unreadable;  // then the name stays as it is
    const fs::path absolute = fs::absolute(*path, unreadable);
    // A relative name that an older run has may belong to another directory. --model may be in a
    // file of weights (take_start_program()).
    const fs::path folder = absolute.parent_path();
    const bool is_inside = path == &model && fs::is_regular_file(folder, unreadable);
    const fs::path there = path == &settings.algo_cache || is_inside ? folder : absolute;
    if (!path->empty() && fs::exists(there, unreadable)) *path = absolute.string();
  }
  if (!model.empty()) settings.model = model;
  return settings;
}

safetensors::Metadata describe_run(const Settings& settings, const RunImages& images,
                                   int64_t ranks) {
  const std::string all = config_text(with_absolute_paths(settings), kTrain);
  std::string decisive;
  for (std::string_view rest = all; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end);
    const size_t key_end = line.find(" = ");
    if (key_end == std::string_view::npos || is_free(settings, line.substr(0, key_end))) continue;
    decisive += line;
  }
  safetensors::Metadata out = {{std::string(kConfigKey), decisive},
                               {std::string(kImagesKey), std::to_string(images.training)},
                               {std::string(kEvaluatedKey), images.evaluated}};
  if (ranks > 1) out.emplace(kRanksKey, std::to_string(ranks));
  return out;
}

}  // namespace lathe::cli
