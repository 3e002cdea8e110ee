// The profile of a run: --profile writes trace.json and op_table.txt of some of its steps into the
// run folder. What cannot be written is a warning, never the end of the training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "lathe/profile/profiler.h"
#include "lathe/tools/cli/output.h"

namespace lathe::cli {

/// Profiles the steps first to last - 1. Step 0 is the first step of this process.
struct ProfileSteps {
  int64_t first = 0, last = 0;
};

/// Reads "10:20".
/// throws: UsageError naming --profile-steps.
ProfileSteps parse_profile_steps(std::string_view text);

class RunProfile {
 public:
  /// Begins to count steps, for --profile-steps. The step before the first profiled one is recorded
  /// as warm-up and dropped. `most`: the number of steps that the process makes if it does not end
  /// early. If `asked` begins after these `most` steps, the same number of steps at the end is
  /// profiled instead, and a line in the log says so.
  RunProfile(const ProfileSteps& asked, int64_t most, Device device,
             const std::filesystem::path& folder, Log& log);
  /// If the run ends during the profiled steps, writes the profile of the steps so far. Warns if no
  /// step was profiled.
  ~RunProfile();
  RunProfile(const RunProfile&) = delete;
  RunProfile& operator=(const RunProfile&) = delete;

  void after_step();

 private:
  void write();

  const ProfileSteps steps_;
  const Device device_;  // whose memory is shown
  const std::filesystem::path folder_;
  Log& log_;
  int64_t step_ = 0;
  bool over_ = false;  // steps were recorded, and written if that was possible
  std::optional<profile::Profiler> profiler_;
};

}  // namespace lathe::cli
