// The schedule of a Profiler over the recorder.
#include "lathe/profile/profiler.h"

#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/log.h"
#include "lathe/profile/trace.h"

namespace lathe::profile {

namespace {

uint32_t wanted_by(const ProfilerOptions& o) {
  return kRanges | (o.record_shapes ? kShapes : 0u) | (o.profile_memory ? kMemory : 0u) |
         (o.with_stack ? kStacks : 0u) | (o.device_times ? kDeviceTimes : 0u) |
         (o.nvtx ? kNvtx : 0u);
}

ProfilerOptions checked(ProfilerOptions options) {
  const Schedule& s = options.schedule;
  LATHE_CHECK(ValueError, s.wait >= 0 && s.warmup >= 0 && s.active >= 0 && s.repeat >= 0,
              "profiler: the schedule has a negative number (wait ", s.wait, ", warmup ", s.warmup,
              ", active ", s.active, ", repeat ", s.repeat, ")");
  LATHE_CHECK(ValueError, s.active > 0 || (s.wait == 0 && s.warmup == 0),
              "profiler: the schedule waits or warms up, but has no active steps");
  LATHE_CHECK(ValueError, options.max_ranges > 0, "profiler: max_ranges must be positive, got ",
              options.max_ranges);
  return options;
}

}  // namespace

Profiler::Profiler(ProfilerOptions options, SourcePlace place)
    : options_(checked(std::move(options))),
      claim_(std::in_place, concat(place.file, ":", place.line)) {
  enter(phase_of(0));
}

Profiler::~Profiler() {
  step_range_.reset();
  if (is_recording()) stop_recording();
}

Profiler::Phase Profiler::phase_of(int64_t step) const {
  const Schedule& s = options_.schedule;
  if (s.active == 0) return {Work::kActive, 0};
  const int64_t cycle = s.wait + s.warmup + s.active;
  const int64_t number = step / cycle, at = step % cycle;
  if (s.repeat > 0 && number >= s.repeat) return {Work::kNothing, number};
  return {at < s.wait              ? Work::kNothing
          : at < s.wait + s.warmup ? Work::kWarmup
                                   : Work::kActive,
          number};
}

bool Profiler::is_recording() const { return phase_.work != Work::kNothing; }

void Profiler::enter(Phase phase) {
  phase_ = phase;
  if (!is_recording()) return;
  start_recording({wanted_by(options_), static_cast<size_t>(options_.max_ranges)});
  step_range_.emplace("step");
}

void Profiler::leave() {
  step_range_.reset();
  const Work before = std::exchange(phase_.work, Work::kNothing);
  if (before == Work::kNothing) return;
  Recording recording = stop_recording();
  if (before == Work::kWarmup) return;
  recording_ = std::move(recording);
  if (recording_.dropped > 0) {
    warn("profiler: ", recording_.dropped, " ranges are missing: more than ", options_.max_ranges,
         " on one thread, or no memory for them");
  }
  if (options_.on_trace_ready) options_.on_trace_ready(*this);
}

void Profiler::step() {
  if (!claim_) return;
  const Phase next = phase_of(++step_);
  if (next == phase_) {
    step_range_.reset();
    if (is_recording()) step_range_.emplace("step");
    return;
  }
  leave();
  enter(next);
}

void Profiler::stop() {
  if (!claim_) return;
  claim_.reset();
  leave();
}

Averages Profiler::key_averages(const GroupOptions& options) const {
  LATHE_CHECK(StateError, !is_recording(), "key_averages: the profiler still records; call stop()");
  return Averages(recording_, options);
}

void Profiler::write_trace(const std::string& path) const {
  LATHE_CHECK(StateError, !is_recording(), "write_trace: the profiler still records; call stop()");
  profile::write_trace(recording_, path);
}

}  // namespace lathe::profile
