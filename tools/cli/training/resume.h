// `--resume`: which checkpoint a run continues from, with which settings, and what may differ.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/nn/checkpoint.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/train/run_lock.h"
#include "lathe/train/trainer.h"

namespace lathe::cli {

/// Keys of a checkpoint's metadata. Further keys are lathe.model, lathe.dataset, lathe.epoch and
/// lathe.step.
inline constexpr std::string_view kConfigKey = "lathe.config";  // settings that decide the result
inline constexpr std::string_view kImagesKey = "lathe.images";  // length of the training set
inline constexpr std::string_view kEvaluatedKey = "lathe.evaluated";  // RunImages::evaluated
inline constexpr std::string_view kRanksKey = "lathe.ranks";          // number of ranks; absent: 1

/// Locks a run folder.
/// throws: UsageError if another process trains in the folder; CommandError if log.txt is no file
/// or cannot be locked.
std::unique_ptr<train::RunLock> lock_run(const std::filesystem::path& folder);

/// Where a training begins.
struct StartPoint {
  Settings settings;  // flags > environment > file of --config > what the run was begun with
  std::filesystem::path folder;  // of the run to continue; empty: a new one for settings.run_dir
  std::unique_ptr<train::RunLock> lock;  // on that folder
  std::filesystem::path file;            // the checkpoint; empty: begin a new run
  std::optional<Checkpoint> from;
  std::optional<Settings> before;     // the settings of the run so far
  std::optional<std::string> record;  // record_of(*from), for a program's run
};

/// The start that --resume asks for; a new run if --resume is not given.
///   auto     the newest complete checkpoint of --run-dir (train::newest_checkpoint). If there is
///            none, a new run, also in a folder where a run has begun (train::set_metrics_aside)
///   FOLDER   like auto for this folder, but there must be a checkpoint
///   FILE     this checkpoint, continued in its own folder or in the new folder --run-dir. A config
///            file must not name it, because each start would go back to this checkpoint
/// throws: UsageError; CommandError (kData), DataError for files that are missing or damaged.
StartPoint find_start(const Invocation& call, Log& log);

/// If --model is a file, takes the settings that the program decides (model_file.h): from the
/// program that the checkpoint of the run carries, otherwise from the file. If --model names a file
/// that is not the run's, that file is not read, and a line of the log says so. Call it when only
/// the model is chosen.
/// throws: as take_carried_program() and take_model_file().
void take_program(Settings& settings, const StartPoint& start, Log& log);

/// The properties of a run's images that decide the run's result.
struct RunImages {
  int64_t training = 0;
  int64_t batches = 0;    // of an epoch
  std::string evaluated;  // which ones evaluations look at: "100 images of test"
};

using train::Unchanged;

/// Compares settings and data with those of the run so far. A different length, and settings that
/// change only the rounding, are allowed: it writes a line to the log. For a program's run it
/// compares only the known settings (program_run.h) and the number of batches.
/// throws: UsageError listing changes that are not allowed, unless --allow-changes is given.
Unchanged check_changes(const StartPoint& start, const Settings& now, const RunImages& images,
                        int64_t ranks, Log& log);

/// Call it if a training with the settings `now` cannot take the state of some parts ("model",
/// "optimizer", …). `why` lists everything that does not fit.
/// throws: UsageError naming the changed settings that decide what the parts hold; CommandError
/// (kData) with `why` if none of these changed.
[[noreturn]] void fail_misfit(const StartPoint& start, const Settings& now,
                              const std::vector<std::string>& parts, const std::string& why);

/// The number of steps of a run of `epochs` epochs with `per_epoch` steps each. Steps that were
/// made with other batches count, too.
int64_t length_of_run(const StartPoint& start, bool same_batches, int64_t epochs,
                      int64_t per_epoch);

/// The settings with absolute paths of data, weights and the algorithm cache, so that a run finds
/// them from any directory.
Settings with_absolute_paths(Settings settings);

/// The metadata for the checkpoints of a run.
safetensors::Metadata describe_run(const Settings& settings, const RunImages& images,
                                   int64_t ranks);

}  // namespace lathe::cli
