// The checkpoints in a run folder: which one a run goes on from, and what is in the way of a run
// that goes back or begins again there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lathe/core/config.h"
#include "lathe/nn/checkpoint.h"

namespace lathe::train {

/// True if a folder holds files of a run: a log, metrics or checkpoints.
/// throws: FileError if one of the files cannot be looked at, also for a link that leads nowhere.
LATHE_API bool holds_run(const std::filesystem::path& folder);

struct LATHE_API FoundCheckpoint {
  std::filesystem::path file;
  Checkpoint checkpoint;
};

/// Gets a warning, one line.
using Warn = std::function<void(const std::string& text)>;

/// The newest complete checkpoint by its step. For the same step, last.safetensors comes before
/// step-N and best. A last.safetensors that went back (kWentBackKey) comes before all others; a
/// best.safetensors that is inexact (kInexactKey) counts only if there is no other. Damaged ones
/// cause warnings. Nothing if the folder holds none at all.
/// throws: DataError if it holds some and none can be read. FileError as holds_run().
LATHE_API std::optional<FoundCheckpoint> newest_checkpoint(const std::filesystem::path& folder,
                                                           const Warn& warn);

/// Makes the folder that of step `step`: removes later step files, a best.safetensors of a later
/// step (the one before it was overwritten) and left-over temporary files.
/// throws: FileError.
LATHE_API void clean_run_folder(const std::filesystem::path& folder, int64_t step);

/// For a run that begins again because it was ended before its first checkpoint: gives metrics that
/// have rows another name, metrics-before-1.jsonl, and says so; removes those without rows.
/// throws: FileError.
LATHE_API void set_metrics_aside(const std::filesystem::path& folder, const Warn& warn);

/// Makes the folder that of a run that goes on from `from`, which was read from `file`, at step
/// `step`, with last.safetensors of that step. That file is written first: everything that is
/// removed after it belongs to later steps, so an interruption does no harm.
///   keep  as TrainerOptions::keep
/// → the value of the metric `monitor` by which best.safetensors was chosen, if there is one
/// throws: FileError.
LATHE_API std::optional<double> go_back(const std::filesystem::path& folder,
                                        const std::filesystem::path& file, const Checkpoint& from,
                                        int64_t step, int64_t keep, std::string_view monitor);

}  // namespace lathe::train
