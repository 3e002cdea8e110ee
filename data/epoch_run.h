// EpochRun: one pass over numbered batches by worker threads. Internal to data/; the public class
// is in data_loader.h.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "lathe/core/function_ref.h"

namespace lathe::data {

class WorkerThreads;

/// The description of one pass.
struct EpochSpec {
  /// Reads batch `job` into place `place` of whoever begins the pass, 0 <= place < places(). Called
  /// from several threads at the same time, for different places. It may give up and return false
  /// if `stop` returns true. If it does so earlier, the pass ends.
  std::function<bool(int64_t job, int64_t place, FunctionRef<bool()> stop)> read;
  int64_t batches;      // in the epoch
  int64_t first_batch;  // the pass begins here
  int64_t capacity;     // most batches that are being read or waiting to be taken
  double timeout = 0;   // seconds that next() waits for a worker; 0: no limit
  /// For messages: "samples 6, 7, …" of a job.
  std::function<std::string(int64_t job)> describe;

  int64_t places() const { return capacity > 0 ? capacity : 1; }
};

/// Batch b of the epoch is job b. Its place is b % capacity in a ring:
///
///   free ──a worker takes b──▶ busy ──all samples read──▶ ready ──next() takes it──▶ free
///                                └────a sample threw────▶ failed ──next() rethrows──▶ end of pass
///
/// Workers take jobs in order, and job b only when b < taken + capacity. So at most `capacity`
/// batches exist besides the caller's, and next() hands them out in order however the workers are
/// scheduled. Which samples a job holds and which random numbers they draw depends on b alone.
///
/// Each batch has its own memory from a caching allocator. For pinned memory the allocator does not
/// hand a block out again before the copies queued from it are done. So a pass circulates the same
/// few blocks.
///
/// To stop (destruction, or after an error), workers look at a flag between two samples and before
/// waiting; the destructor waits for them, but no longer than the timeout. After a timeout the
/// threads are left running, with everything they refer to. One mutex guards everything except the
/// batch being read, which belongs to its worker.
class EpochRun {
 public:
  /// `threads` must be acquired for this pass, which releases them. Null: next() reads in the
  /// calling thread.
  EpochRun(EpochSpec spec, std::shared_ptr<WorkerThreads> threads);
  ~EpochRun();
  EpochRun(const EpochRun&) = delete;
  EpochRun& operator=(const EpochRun&) = delete;

  /// Calls `take` with the place of the next batch. The place is free again when `take` returns,
  /// which must not throw.   → false from the end of the epoch on, also after an error, and where
  /// read() gave up
  /// throws: the error of the first job that failed, when it is that job's turn; what a worker's
  /// init threw; DataError after the timeout; StateError in a forked child.
  bool next(FunctionRef<void(int64_t place)> take);

  /// True if the pass ended before its last batch: next() has thrown, or read() gave up.
  bool failed() const;
  /// True if next() would return without waiting.
  bool ready() const;
  /// Batches that are ready to be taken.
  int64_t waiting() const;

 private:
  struct State;
  static void work(State& state, std::exception_ptr init_error);
  bool next_here(FunctionRef<void(int64_t)> take);
  bool next_of_workers(FunctionRef<void(int64_t)> take);
  void stop();
  bool is_forked() const;  // the threads are another process's; a lock may stay held for ever

  std::shared_ptr<State> state_;
  std::shared_ptr<WorkerThreads> threads_;  // null: there are none, or they were released
  const bool has_workers_;
  const int process_;
};

}  // namespace lathe::data
