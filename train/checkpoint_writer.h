// CheckpointWriter: writes the checkpoints of a run folder while training goes on.
//   last.safetensors       the newest checkpoint
//   step-120.safetensors   the newest `keep` ones if keep > 1: links to files that were
//                          last.safetensors, so that one damaged file does not end a run
//   best.safetensors       the newest that save() got under this name
// The training thread copies the state and goes on; a thread of the writer checks and writes it.
// There is room for two copies: one being written and one waiting. A third save() waits until the
// first copy is on the disk, so memory is bounded however slow the disk is.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "lathe/core/config.h"
#include "lathe/train/snapshot.h"

namespace lathe::train {

class LATHE_API CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path folder, int64_t keep);
  /// Writes what is waiting. Errors of that are lost, so call finish() first.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Copies the state now; `<name>.safetensors` has it some time later. Copies are written in the
  /// order of the calls. `step` is the step of the state.
  /// throws: the error of an earlier write (FileError). After an error nothing more is written.
  void save(const Checkpoint& checkpoint, const std::string& name, int64_t step);

  /// Waits until everything is on the disk.
  /// throws: as save().
  void finish();

  /// The number of calls of save().
  size_t saves() const { return saved_; }
  /// True if the states of the first `saves` calls of save() are on the disk.
  bool holds(size_t saves) const;

 private:
  /// free ──save()──▶ waiting ──the thread──▶ writing ──▶ free
  struct Place {
    bool busy = false;
    Snapshot snapshot;
    std::string name;
    int64_t step = 0;
  };

  void work();
  void write(const Place& place) const;
  void rethrow() const;

  const std::filesystem::path folder_;
  const int64_t keep_;
  mutable std::mutex mutex_;  // guards what follows, except the snapshot of a busy place
  std::condition_variable changed_;
  std::array<Place, 2> places_;
  size_t saved_ = 0, written_ = 0;  // save number n uses places_[n % 2]
  std::exception_ptr error_;
  bool ends_ = false;
  std::thread thread_;
};

/// "step-120.safetensors".
LATHE_API std::string step_file(int64_t step);

/// Links last.safetensors, which holds `last`, to the step file of `step`, and removes all but the
/// newest `keep` step files; all of them if `keep` is 1.
/// throws: FileError.
LATHE_API void keep_newest(const std::filesystem::path& folder, int64_t step, int64_t keep,
                           const Checkpoint& last);

/// The steps of the step files in a folder, ascending.
/// throws: FileError if it cannot be listed.
LATHE_API std::vector<int64_t> steps_in(const std::filesystem::path& folder);

}  // namespace lathe::train
