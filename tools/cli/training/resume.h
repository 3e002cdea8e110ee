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

/// Keys of a checkpoint's metadata, besides lathe.model, lathe.dataset, lathe.epoch and lathe.step.
inline constexpr std::string_view kConfigKey = "lathe.config";  // settings that decide the result
inline constexpr std::string_view kImagesKey = "lathe.images";  // length of the training set
inline constexpr std::string_view kEvaluatedKey = "lathe.evaluated";  // RunImages::evaluated
inline constexpr std::string_view kRanksKey = "lathe.ranks";  // how many trained; absent: one

/// Locks a run folder.
/// throws: UsageError if another process trains in it; CommandError if log.txt is no file, or
/// cannot be locked.
std::unique_ptr<train::RunLock> lock_run(const std::filesystem::path& folder);

/// Where a training begins.
struct StartPoint {
  Settings settings;  // flags > environment > file of --config > what the run was begun with
  std::filesystem::path folder;  // of the run to continue; empty: a new one for settings.run_dir
  std::unique_ptr<train::RunLock> lock;  // on that folder
  std::filesystem::path file;            // the checkpoint; empty: begin a new run
  std::optional<Checkpoint> from;
  std::optional<Settings> before;     // the settings of the run so far
  std::optional<std::string> record;  // of a program's run: all that its checkpoint says of them
};

/// The start that --resume asks for; a new run if it asks for nothing.
///   auto     the newest complete checkpoint of --run-dir (train::newest_checkpoint). Without any,
///            a new run, also in a folder that has begun one (train::set_metrics_aside)
///   FOLDER   the same, but there must be one
///   FILE     this one, continued in its own folder or in the new folder --run-dir; not of a config
///            file, which would go back to it again and again
/// throws: UsageError; CommandError (kData), DataError for files that are missing or damaged.
StartPoint find_start(const Invocation& call, Log& log);

/// If --model is a file, takes what it says (model_file.h): of the program that the checkpoint of
/// the run carries, or else of the file. Another file than the run's is not read, and a line of the
/// log says so. Call it before anything is chosen but the model.
/// throws: as take_carried_program() and take_model_file().
void take_program(Settings& settings, const StartPoint& start, Log& log);

/// The images of a run, as far as they decide its result.
struct RunImages {
  int64_t training = 0;
  int64_t batches = 0;    // of an epoch
  std::string evaluated;  // which ones evaluations look at: "100 images of test"
};

using train::Unchanged;

/// Compares settings and data with those of the run so far. Another length, and what only rounds
/// differently, is a line of the log. For a program's run, compares only what is known of it
/// (program_run.h) and the number of batches.
/// throws: UsageError listing what must not change, unless --allow-changes.
Unchanged check_changes(const StartPoint& start, const Settings& now, const RunImages& images,
                        int64_t ranks, Log& log);

/// Call if training with the settings `now` cannot take the state of these parts ("model",
/// "optimizer", …); `why` lists all that does not fit.
/// throws: UsageError naming the changed settings that decide what the parts hold; CommandError
/// (kData) with `why` if none of these changed.
[[noreturn]] void fail_misfit(const StartPoint& start, const Settings& now,
                              const std::vector<std::string>& parts, const std::string& why);

/// Steps of a run of `epochs` epochs with `per_epoch` steps each. Steps made with other batches
/// count as they were made.
int64_t length_of_run(const StartPoint& start, bool same_batches, int64_t epochs,
                      int64_t per_epoch);

/// The settings with absolute paths of data, weights and found algorithms, as runs keep them: they
/// are found from any directory.
Settings with_absolute_paths(Settings settings);

/// The metadata that the checkpoints of this run have.
safetensors::Metadata describe_run(const Settings& settings, const RunImages& images,
                                   int64_t ranks);

}  // namespace lathe::cli
