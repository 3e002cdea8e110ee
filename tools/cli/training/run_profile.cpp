// Which steps of a run are profiled, and the two files that this leaves.
#include "lathe/tools/cli/training/run_profile.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/core/file.h"
#include "lathe/core/profile/memory_use.h"
#include "lathe/core/profile/trace.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/parse_value.h"

namespace lathe::cli {

ProfileSteps parse_profile_steps(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    throw UsageError(
        formatted("--profile-steps: expected A:B, for steps A to B-1, got {}", std::string(text)));
  constexpr int64_t kMost = 1'000'000'000;
  const int64_t first = parse_integer("--profile-steps", text.substr(0, colon), 0, kMost);
  return {first, parse_integer("--profile-steps", text.substr(colon + 1), first + 1, kMost)};
}

RunProfile::RunProfile(const ProfileSteps& steps, Device device,
                       const std::filesystem::path& folder, Log& log)
    : steps_(steps), device_(device), folder_(folder), log_(log) {
  const int64_t warmup = std::min<int64_t>(steps.first, 1);
  profiler_.emplace(
      profile::ProfilerOptions{.record_shapes = true,
                               .profile_memory = true,
                               .schedule = {.wait = steps.first - warmup,
                                            .warmup = warmup,
                                            .active = steps.last - steps.first},
                               .on_trace_ready = [this](profile::Profiler&) { write(); }});
}

RunProfile::~RunProfile() {
  try {
    profiler_->stop();
  } catch (...) {  // no memory to write with
  }
}

void RunProfile::after_step() {
  ++step_;
  profiler_->step();
  if (step_ == steps_.last) profiler_->stop();
}

void RunProfile::write() {
  const profile::Recording& recording = profiler_->recording();
  const std::string trace = (folder_ / "trace.json").string();
  const std::string table = (folder_ / "op_table.txt").string();
  const bool traced = profile::try_write_trace(recording, trace);
  try {
    write_file_atomic(table, concat(profiler_->key_averages().table(), "\n",
                                    profile::memory_use(device_).text()));
    log_.line(formatted("profile of steps {} to {}: {}{}", steps_.first,
                        std::min(step_, steps_.last) - 1, table,
                        traced ? formatted(", {} for ui.perfetto.dev", trace) : ""));
  } catch (const Error& e) {
    log_.warning(formatted("the table of ops was not written: {}", e.message()));
  }
}

}  // namespace lathe::cli
