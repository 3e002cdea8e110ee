// CheckpointWriter: writes the checkpoints of a run folder while training goes on.
//   last.safetensors       the newest
//   step-120.safetensors   the newest `keep` ones, where keep > 1: other names of what was once
//                          last.safetensors, so that a damaged file is not the end of a run
//   best.safetensors       the newest that save() was given under this name
// The training thread copies the state and goes on; a thread of the writer's own sorts, checks and
// writes it. There is room for two copies: one being written and one waiting. Who comes third waits
// for the first to be on the disk, so memory stays bounded however slow the disk is.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "lathe/tools/cli/training/snapshot.h"

namespace lathe::cli {

class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path folder, int64_t keep);
  /// Writes what waits. An error of that is lost: call finish() first.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Copies the state now; `<name>.safetensors` holds it some time later. What is given first is
  /// written first. `step` is that of the state.
  /// throws: the error of an earlier write (FileError); after one nothing more is written.
  void save(const Checkpoint& checkpoint, const std::string& name, int64_t step);

  /// Waits until everything is on the disk.
  /// throws: as save().
  void finish();

  /// How often save() was called.
  size_t saves() const { return saved_; }
  /// Whether what the first `saves` calls were given is on the disk.
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
  mutable std::mutex mutex_;  // guards what follows, but for the snapshot of a busy place
  std::condition_variable changed_;
  std::array<Place, 2> places_;
  size_t saved_ = 0, written_ = 0;  // number n is in places_[n % 2]
  std::exception_ptr error_;
  bool ends_ = false;
  std::thread thread_;
};

/// "step-120.safetensors".
std::string step_file(int64_t step);

/// Gives last.safetensors, which holds `last`, its other name of this step, and removes all but the
/// newest `keep` of these names; all for a `keep` of 1.
/// throws: FileError.
void keep_newest(const std::filesystem::path& folder, int64_t step, int64_t keep,
                 const Checkpoint& last);

/// The steps of the step files in a folder, ascending.
std::vector<int64_t> steps_in(const std::filesystem::path& folder);

}  // namespace lathe::cli
