// RunFolder: the checkpoints that a training leaves in its folder. It knows which state is known to
// be good, and therefore what may overwrite what. The training tells it what happens;
// CheckpointWriter writes the files.
//   good       a state whose own loss is known to be finite: at first the one that training begins
//              with. A copy in host memory, which save_good() writes if later states may be bad.
//   candidate  a copy of a later state whose loss is not known yet. It becomes the good state when
//              its loss turns out to be finite.
//   last       last.safetensors: the newest state. save_good() keeps it if all losses up to that
//              state are known to be finite and it is not older than the good state; otherwise it
//              writes the good state in its place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "lathe/core/config.h"
#include "lathe/train/checkpoint_writer.h"
#include "lathe/train/errors.h"
#include "lathe/train/snapshot.h"

namespace lathe::train {

/// Metadata key of a checkpoint from which training cannot continue with the same bits. The entry
/// says why:
///   - The checkpoint was made in the middle of a step, after an error: the batch norms have seen
///     one batch more than the optimiser.
///   - Its weights are averages (optim::EMA).
///   - It was made after an evaluation that an uninterrupted training would not have made at this
///     step.
inline constexpr std::string_view kInexactKey = "lathe.inexact";
/// Metadata key of a last.safetensors that holds an earlier step than the run had reached: later
/// states may be bad, because a loss was not finite or a device failed.
inline constexpr std::string_view kWentBackKey = "lathe.went_back";
/// Metadata key of a checkpoint for the number of batches in an epoch. A training that resumes with
/// another number would get other batches.
inline constexpr std::string_view kBatchesKey = "lathe.batches";
/// Metadata key of a checkpoint for the settings of a Trainer that opened its folder itself,
/// without use_folder(). The settings are lines `name = value`: the class of its optimiser,
/// `scheduler = "none"` if there is no schedule, and options that decide the result. With these
/// settings the command can continue the run of a program.
inline constexpr std::string_view kOptionsKey = "lathe.options";

/// Steps between two copies of the state (take_candidate()). On a CPU a copy takes about a
/// hundredth of a step. From a GPU it takes some milliseconds and overlaps with the next step.
inline constexpr int64_t kStepsBetweenCandidates = 50;

/// Knows which training state is good (its own loss is finite), and writes the checkpoints of a
/// run. The step of a state is the number of updates that led to it.
class LATHE_API RunFolder {
 public:
  /// `present` is a function that makes a checkpoint of the present state. The checkpoint may share
  /// its values with the model. With several ranks, only one rank passes a `present`. A RunFolder
  /// without a `present` copies nothing and writes nothing; in all else it works the same. `keep`:
  /// as TrainerOptions::keep.
  RunFolder(const std::filesystem::path& folder, int64_t keep, std::function<Checkpoint()> present);

  // --- which state is good ----
  /// Says that the present state is good. Call it before the first step.
  void begin(int64_t step);
  /// Begins to copy the present state. The copy is the candidate for the next good state. Training
  /// may go on as soon as the call returns: the copy gets the values from the time of the call.
  void take_candidate();
  /// Says that the loss of the state that take_candidate() copied is finite. Waits until the copy
  /// is complete. From then on, the copy is the good state.
  void accept_candidate(int64_t step);
  /// Says that all losses of the steps before `step` are finite.
  void losses_are_finite(int64_t step) { finite_until_ = step; }
  /// Says that a loss was not finite. States that were saved after the good state may be the cause.
  void loss_is_bad() { good_on_disk_ = -1; }

  // --- what is written ----
  // throws: SaveError if the folder cannot be written; save(), and begin(), take_candidate() and
  // accept_candidate() above, also OutOfMemoryError and CudaError, from the copy.
  /// Saves the present state as `name`: "last" or "best". `averages`: true if the state's weights
  /// are averages, with which training does not continue. Does nothing for "last" after
  /// seal_last().
  void save(std::string_view name, int64_t step, bool averages = false);
  /// Saves the good state (see the top of this file) as last.safetensors, and waits for the disk.
  /// Writes nothing if this file already holds the good state, or a newer one that was saved by
  /// save() and has turned out to be good.
  ///   step  the step that training has reached. If it is later than the good state's step, the
  ///         file says that the steps in between may have diverged.
  /// → the step of the state in last.safetensors
  int64_t save_good(int64_t step);
  /// From now on save() does not overwrite last.safetensors, so that the run can be resumed from
  /// it.
  void seal_last() { last_is_sealed_ = true; }
  bool last_is_sealed() const { return last_is_sealed_; }
  /// Waits until everything is on the disk.
  void wait();

  // --- what there is ----
  std::string last_file() const { return (folder_ / "last.safetensors").string(); }
  /// True after save("last", …) or found_last(): last.safetensors exists or is being written.
  bool has_last() const { return has_last_; }
  void found_last() { has_last_ = true; }
  /// True if "best" was saved since the last call of take_best_saved().
  bool take_best_saved() { return std::exchange(best_saved_, false); }
  /// True if "best" was ever saved.
  bool has_saved_best() const { return has_saved_best_; }
  /// The number of saves so far, and whether the first `saves` of them are on the disk.
  size_t count() const { return writer_.saves(); }
  bool holds(size_t saves) const { return writer_.holds(saves); }
  /// The seconds that save() and wait() took in the training thread.
  double seconds() const { return seconds_; }

 private:
  void write(std::string_view name, const Checkpoint& checkpoint, int64_t step);

  const std::filesystem::path folder_;
  const std::function<Checkpoint()> present_;
  CheckpointWriter writer_;
  Snapshot good_, candidate_;
  int64_t good_step_ = 0;
  int64_t finite_until_ = 0;
  int64_t good_on_disk_ = -1;  // the step of last.safetensors; -1: it is not known to be good
  bool has_last_ = false, last_is_sealed_ = false;
  bool best_saved_ = false, has_saved_best_ = false;
  double seconds_ = 0;
};

}  // namespace lathe::train
