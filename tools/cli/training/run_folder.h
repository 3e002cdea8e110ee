// The run folder: the files that a training leaves.
//   config.toml                   the settings in effect; --config reads them again
//   env.json                      versions and machine
//   metrics.jsonl, metrics.csv    one row per measurement (metrics_row)
//   log.txt                       the messages of stderr, with the time
//   trace.json, op_table.txt      with --profile (run_profile.h)
//   last.safetensors, best.safetensors, step-N.safetensors   checkpoints (checkpoint_writer.h)
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "lathe/train/observer.h"

namespace lathe::cli {

/// The folder, below the working directory, in which run folders are made without --run-dir.
inline constexpr char kUsualRuns[] = "runs";

/// Makes the new folder `requested` or, if that is empty, runs/<name>-<date>-N below the working
/// directory with the first free N. If several processes request one folder, only one gets it.
/// throws: UsageError if `requested` already holds a file of a run; FileError.
std::filesystem::path make_run_folder(const std::string& requested, const std::string& name,
                                      const std::string& date);

/// Notices if somebody removes files of the run folder during the training. Add this observer to
/// the trainer after the one that makes the metrics files.
class RunFilesCheck : public train::Observer {
 public:
  void on_start(train::Trainer& trainer) override;

  /// Call it at the end of a training, after everything was saved. `has_best`: best.safetensors was
  /// written, too.
  /// throws: CommandError (kError) naming the files that are gone, and the metrics files that
  /// somebody replaced.
  void check(bool has_best) const;

 private:
  std::filesystem::path folder_;
  std::vector<std::string> metrics_;  // which files they are
};

/// The date as "20260131".
std::string today();

}  // namespace lathe::cli
