// A step on the GPU that is there: the time of each op, to stand beside the launches of a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/hooks/record.h"
#include "lathe/train/plan/launch_list.h"
#include "lathe/train/plan/step_recording.h"

namespace lathe::plan {

/// An op of the step, named as Launch::op, and how long the GPU worked for it, without the ops
/// inside it. An optimiser's step is one op with all that it calls. Without CUPTI
/// (core/device_activity.h) it is the time from the op's begin to its end on the GPU: gaps between
/// its kernels count, ops that launch nothing are there too, and those without a tensor among their
/// inputs, such as an update, are not.
struct MeasuredOp {
  std::string op;
  double seconds = 0;
};

struct MeasuredStep {
  std::vector<MeasuredOp> ops;  // in the order of their begins, only those that were measured
  double seconds = 0;           // from step to step, kernel by kernel, without a profiler
};

/// The ops of a recording of one step.
LATHE_API std::vector<MeasuredOp> measured_ops(const profile::Recording& recording);

/// Steps on `batch` samples on the GPU, kernel by kernel: those that record_small_step() runs on
/// the CPU. Each op's time is the median of five steps. cudnn::set_benchmark() must be off: a
/// search may fuse ops that a plan lists one by one.
/// throws: what the functions of `setup` throw; OutOfMemoryError; LossScaleError.
LATHE_API MeasuredStep measure_step(const train::StepSetup& setup, Device gpu, int64_t batch);

/// The time of each launch's op, at the first of the op's launches; nothing at its others. The k-th
/// op of a name in the plan is the k-th one in the step. Where the two have a different number of
/// them, nothing.
LATHE_API std::vector<std::optional<double>> times_beside(const std::vector<Launch>& launches,
                                                          const std::vector<MeasuredOp>& ops);

}  // namespace lathe::plan
