// The checkpoints in a run folder: which one a run goes on from, and what is in the way of a run
// that goes back or begins again there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "lathe/nn/checkpoint.h"
#include "lathe/tools/cli/output.h"

namespace lathe::cli {

/// Whether a folder holds files of a run: a log, metrics or checkpoints.
/// throws: FileError if one cannot be looked at, also for a link that leads nowhere.
bool holds_run(const std::filesystem::path& folder);

struct FoundCheckpoint {
  std::filesystem::path file;
  Checkpoint checkpoint;
};

/// The newest complete checkpoint, as find_start() (resume.h) says it; damaged ones cause warnings.
/// Nothing if the folder holds none at all.
/// throws: CommandError (kData) if it holds some and none can be read. FileError as holds_run().
std::optional<FoundCheckpoint> newest_checkpoint(const std::filesystem::path& folder, Log& log);

/// Makes the folder that of step `step`: removes later step files, a best.safetensors of a later
/// step (the one before it was overwritten) and left-over temporary files.
/// throws: FileError.
void clean_run_folder(const std::filesystem::path& folder, int64_t step);

/// For a run that begins again because it was ended before its first checkpoint: gives metrics that
/// have rows another name, metrics-before-1.jsonl, and says so; removes those without rows.
/// throws: FileError.
void set_metrics_aside(const std::filesystem::path& folder, Log& log);

/// The accuracy by which best.safetensors was chosen; -1 if there is none, or it is damaged.
/// throws: FileError if it cannot be read.
double accuracy_of_best(const std::filesystem::path& folder);

}  // namespace lathe::cli
