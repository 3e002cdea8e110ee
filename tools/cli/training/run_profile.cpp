// Which steps of a run are profiled, and the two files that this leaves.
#include "lathe/tools/cli/training/run_profile.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/profile/trace.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/parse_value.h"

namespace lathe::cli {
namespace {

// What is profiled of `steps` steps. The very first one is no example of the others.
ProfileSteps steps_within(const ProfileSteps& asked, int64_t steps) {
  if (asked.first < steps || steps <= 0) return asked;
  const int64_t least = std::min<int64_t>(1, steps - 1);
  return {std::max(least, steps - (asked.last - asked.first)), steps};
}

}  // namespace

ProfileSteps parse_profile_steps(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos)
    throw UsageError(
        formatted("--profile-steps: expected A:B, for steps A to B-1, got {}", std::string(text)));
  constexpr int64_t kMost = 1'000'000'000;
  const int64_t first = parse_integer("--profile-steps", text.substr(0, colon), 0, kMost);
  return {first, parse_integer("--profile-steps", text.substr(colon + 1), first + 1, kMost)};
}

RunProfile::RunProfile(const ProfileSteps& asked, int64_t most, Device device,
                       const std::filesystem::path& folder, Log& log)
    : steps_(steps_within(asked, most)), device_(device), folder_(folder), log_(log) {
  if (steps_.first != asked.first) {
    log_.line(formatted(
        "--profile-steps {}:{} begins after the last of {}: steps {}:{} are profiled instead",
        asked.first, asked.last, count_text(most, "step"), steps_.first, steps_.last));
  }
  const int64_t warmup = std::min<int64_t>(steps_.first, 1);
  profiler_.emplace(
      profile::ProfilerOptions{.record_shapes = true,
                               .profile_memory = true,
                               .schedule = {.wait = steps_.first - warmup,
                                            .warmup = warmup,
                                            .active = steps_.last - steps_.first},
                               .on_trace_ready = [this](profile::Profiler&) { write(); }});
}

RunProfile::~RunProfile() {
  try {
    profiler_->stop();
    if (!over_) {
      log_.warning(
          formatted("--profile: nothing was profiled, because this process made {} and "
                    "--profile-steps is {}:{}",
                    count_text(step_, "step"), steps_.first, steps_.last));
    }
  } catch (...) {  // no memory to write with
  }
}

void RunProfile::after_step() {
  ++step_;
  profiler_->step();
  if (step_ == steps_.last) profiler_->stop();
}

void RunProfile::write() {
  if (step_ <= steps_.first) return;  // the run has ended before the first of them was over
  over_ = true;
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
