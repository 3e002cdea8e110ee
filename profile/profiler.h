// Profiler: records what the program does between its construction and stop(), on all threads.
//
//   profile::Profiler profiler({.record_shapes = true});
//   for (…) { train(batch); profiler.step(); }
//   profiler.stop();
//   std::cout << profiler.key_averages().table();
//   profiler.write_trace("trace.json");
//
// docs/profiler.md shows how to read the table.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lathe/core/config.h"
#include "lathe/core/error.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/record.h"
#include "lathe/core/hooks/recorder.h"
#include "lathe/profile/averages.h"

namespace lathe::profile {

/// Which steps are recorded. The first `wait` steps are not recorded, the next `warmup` steps are
/// recorded and thrown away, the next `active` steps are kept. This cycle runs `repeat` times, or
/// without end if `repeat` is 0. With active = 0 all steps are kept.
struct Schedule {
  int64_t wait = 0, warmup = 0, active = 0, repeat = 1;
};

class Profiler;

struct ProfilerOptions {
  bool record_shapes = false;   // the inputs of each op
  bool profile_memory = false;  // bytes that tensors take and give back
  bool with_stack = false;      // where each op was called; takes some microseconds an op
  bool device_times = true;     // GPU times of ops (none inside a CUDA graph that is captured)
  bool nvtx = false;            // the ranges in NVIDIA Nsight, in a build with CUDA
  Schedule schedule = {};
  /// step() or stop() calls it when the active steps are over.
  std::function<void(Profiler&)> on_trace_ready = {};
  int64_t max_ranges = 1 << 21;  // of one thread in one recording; further ones are only counted
};

class LATHE_API Profiler {
 public:
  /// Starts profiling: immediately, or at the first step that the schedule records.
  /// throws: StateError if another profiler exists; the message says where it was made. ValueError
  /// for a negative number in the schedule, `wait` or `warmup` without active steps, or max_ranges
  /// < 1.
  explicit Profiler(ProfilerOptions options = {},
                    SourcePlace place = here(__builtin_FILE(), __builtin_LINE()));
  /// Stops recording. Does not call on_trace_ready.
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Ends a training step and moves the schedule on by one step. The work of this thread from one
  /// call to the next is recorded as a range "step". A Range that is open during the call is not
  /// recorded.
  void step();
  /// Ends the recording. Waits for the measured GPUs. Later calls of stop() and step() do nothing.
  void stop();

  /// The profiled ranges of the last active steps, added up by name.
  /// throws: StateError while the profiler records, also during warm-up.
  Averages key_averages(const GroupOptions& options = {}) const;
  /// Writes the profile of the last active steps as a trace file (trace.h).
  /// throws: StateError while the profiler records, also during warm-up; FileError.
  void write_trace(const std::string& path) const;
  /// The recording of the last active steps; empty before the first ones are over.
  const Recording& recording() const { return recording_; }

 private:
  enum class Work : uint8_t { kNothing, kWarmup, kActive };
  struct Phase {
    Work work = Work::kNothing;
    int64_t cycle = 0;
    bool operator==(const Phase&) const = default;
  };

  Phase phase_of(int64_t step) const;
  bool is_recording() const;
  void enter(Phase phase);
  void leave();

  const ProfilerOptions options_;
  std::optional<Claim> claim_;  // until stop()
  Phase phase_;
  int64_t step_ = 0;
  std::optional<Range> step_range_;
  Recording recording_;
};

}  // namespace lathe::profile
