// `--resume`: from which checkpoint a run goes on, with which settings, and what may differ.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/file_lock.h"
#include "lathe/nn/checkpoint.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"

namespace lathe::cli {

/// In a checkpoint's metadata, beside lathe.model, lathe.dataset, lathe.epoch and lathe.step:
inline constexpr std::string_view kConfigKey = "lathe.config";  // settings that decide the result
inline constexpr std::string_view kImagesKey = "lathe.images";  // length of the training set
/// Why training goes on from it, but not bit by bit: made in the middle of a step, after an error
/// (the batch norms have seen a batch more than the optimiser), with averaged weights (--ema), or
/// with an evaluation at the --time-limit.
inline constexpr std::string_view kInexactKey = "lathe.inexact";
/// Metadata of a last.safetensors that holds an earlier step than the run had reached, because what
/// came after it may be no good: a loss was no number, or a device failed.
inline constexpr std::string_view kWentBackKey = "lathe.went_back";

/// Holds a run folder against other processes that train in it: the folder itself, which cannot be
/// deleted as long as there are files in it, and log.txt, whose lock other machines see where the
/// folder is one of a server (NFS).
class RunLock {
 public:
  /// throws: UsageError if another process trains in it, or log.txt cannot be locked; CommandError
  /// if that is no file.
  explicit RunLock(const std::filesystem::path& folder);

 private:
  std::optional<FileLock> folder_, log_;
};

/// Where a training begins.
struct StartPoint {
  Settings settings;              // flags > environment > what the run was begun with
  std::filesystem::path folder;   // to go on in; empty: a new one, of settings.run_dir
  std::unique_ptr<RunLock> lock;  // of that folder
  std::filesystem::path file;     // the checkpoint; empty: from the start
  std::optional<Checkpoint> from;
  std::optional<Settings> before;  // the settings of the run so far
};

/// What --resume asks for; a new run where it asks for nothing.
///   auto     the newest whole checkpoint of --run-dir by its step: of several of one step
///            last.safetensors comes before step-N and best. A best one that does not go on bit by
///            bit (kInexactKey) counts only if there is no other. A folder without any begins from
///            the start
///   FOLDER   the same, but there must be one
///   FILE     this one, in its own folder, or in the new folder --run-dir
/// throws: UsageError; CommandError (kData), DataError for files that are missing or damaged.
StartPoint find_start(const Invocation& call, Log& log);

/// Compares settings and data with those of the run so far.   → whether the batches are the same
/// throws: UsageError listing what must not change, unless --allow-changes.
bool check_changes(const StartPoint& start, const Settings& now, int64_t images, Log& log);

/// Of a checkpoint whose state of these parts ("model", "optimizer", …) training with the settings
/// `now` cannot take; `why` is the whole list.
/// throws: UsageError naming the changed settings that decide what the parts hold; CommandError
/// (kData) with `why` if none did change.
[[noreturn]] void fail_misfit(const StartPoint& start, const Settings& now,
                              const std::vector<std::string>& parts, const std::string& why);

/// Steps of a run of `epochs` with `per_epoch` each; those that were done with other batches count
/// as they were.
int64_t length_of_run(const StartPoint& start, bool same_batches, int64_t epochs,
                      int64_t per_epoch);

/// What checkpoints of this run say about it.
safetensors::Metadata describe_run(Settings settings, int64_t images);

/// Makes the folder that of step `step`: no later step files, no best.safetensors of a later step
/// (the one before it was overwritten), no left-over temporary files; for a step of -1, where
/// nothing was saved, no metrics either.
void clean_run_folder(const std::filesystem::path& folder, int64_t step);

/// The test accuracy of what best.safetensors holds; -1 if there is none that can be read.
double accuracy_of_best(const std::filesystem::path& folder);

}  // namespace lathe::cli
