// find_batch(): the largest batch for which a training step has memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/function_ref.h"
#include "lathe/train/step_setup.h"

namespace lathe::train {

/// A batch that was tried.
struct BatchTrial {
  int64_t batch = 0;
  double samples_per_second = 0;
  int64_t peak_bytes = 0;  // of tensors
};

struct FindBatchOptions {
  int64_t most = 4096;  // no larger batch is tried
  // What tensors on the device may take during the search. 0: on a GPU what there is, on a CPU
  // memory_for_tensors(), or half of the machine's memory where that is not known.
  size_t limit_bytes = 0;
  double seconds = 0.5;  // steps on a batch are timed for this long, at least one
  /// After each batch; nothing for one that does not fit.
  std::function<void(int64_t batch, const std::optional<BatchTrial>& trial)> on_trial = {};
};

struct FoundBatch {
  int64_t largest = 0;      // 0: not even the smallest fits
  BatchTrial fastest = {};  // by samples per second
  std::string no_memory;    // why the last batch that was refused did not fit
  std::string needs_two;    // why the model cannot be trained on one sample, if it cannot
};

/// Makes training steps on batches of growing size: forward, loss, backward, update, without a
/// loss scale. A batch that does not fit gives its memory back. Model and optimiser are made once,
/// within the limit. Draws from the default generators.
/// throws: what `setup` and train::Step throw, but for OutOfMemoryError, and for the ShapeError of
/// a single sample.
LATHE_API FoundBatch find_batch(const StepSetup& setup, Device device,
                                const FindBatchOptions& options = {});

/// What limit_bytes = 0 stands for on the device; 0: no limit.
LATHE_API size_t default_memory_limit(Device device);

/// The largest n from 1 to `most` for which fits(n), if every n below one that fits also fits.
/// Doubles n from 1 until it does not fit, then halves the gap until it is at most a 32nd of the
/// answer (or 1).   → 0 if not even 1 fits
LATHE_API int64_t largest_that_fits(int64_t most, FunctionRef<bool(int64_t)> fits);

/// What tensors may have of the bytes that a process on a CPU can still get. The rest, a tenth and
/// no less than 96 MiB, is for libraries, their code and their threads.   → 0 if nothing is left
LATHE_API int64_t tensors_within(int64_t available);

/// The memory that tensors on the device may have, what they have already included; 0: unknown.
LATHE_API int64_t memory_for_tensors(Device device);

}  // namespace lathe::train
