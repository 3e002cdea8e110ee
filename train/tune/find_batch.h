// find_batch(): finds the largest batch for which a training step has enough memory.
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
  int64_t most = 4096;  // the largest batch to try
  // The memory that tensors on the device may take during the search. 0: on a GPU all free memory,
  // on a CPU memory_for_tensors(), or half of the machine's memory if that is unknown.
  size_t limit_bytes = 0;
  double seconds = 0.5;  // time in which steps on a batch are timed, at least one step
  /// Called after each batch. `trial` is empty if the batch does not fit.
  std::function<void(int64_t batch, const std::optional<BatchTrial>& trial)> on_trial = {};
};

struct FoundBatch {
  int64_t largest = 0;      // 0: not even the smallest batch fits
  BatchTrial fastest = {};  // by samples per second
  std::string no_memory;    // the error of the last batch that did not fit
  std::string needs_two;    // why the model cannot be trained on one sample; empty if it can
};

/// Finds the largest batch that fits, by training steps (forward, loss, backward, update) on
/// batches of growing size, without a loss scale. The memory of a batch that does not fit is freed.
/// find_batch() makes model and optimiser once; their memory counts as used, too
/// (FindBatchOptions::limit_bytes). It draws from the default generators.
/// throws: what `setup` and train::Step throw. Two errors are results instead: OutOfMemoryError
/// (FoundBatch::no_memory), and the ShapeError of a batch of one sample (FoundBatch::needs_two).
LATHE_API FoundBatch find_batch(const StepSetup& setup, Device device,
                                const FindBatchOptions& options = {});

/// The limit on `device` if limit_bytes is 0.   → 0: no limit
LATHE_API size_t default_memory_limit(Device device);

/// Finds the largest n from 1 to `most` for which fits(n) is true, with an error of at most n / 32.
/// Assumes that all numbers below a number that fits also fit. Doubles n from 1 until n does not
/// fit, then bisects.
/// → 0 if not even 1 fits
LATHE_API int64_t largest_that_fits(int64_t most, FunctionRef<bool(int64_t)> fits);

/// The bytes that tensors may take of the `available` bytes that a process on a CPU can still get.
/// A tenth, and at least 96 MiB, is reserved for libraries, their code and their threads.
/// → 0 if nothing is left
LATHE_API int64_t tensors_within(int64_t available);

/// The bytes that tensors on the device may take, including those that tensors already hold.   → 0
/// if unknown
LATHE_API int64_t memory_for_tensors(Device device);

}  // namespace lathe::train
