// One pass over numbered batches by worker threads. Internal to data/; users see data_loader.h.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "lathe/core/function_ref.h"

namespace lathe::data {

class WorkerThreads;

/// What one pass needs to know.
struct EpochPlan {
  /// Makes batch `job`, whatever a batch is; called from several threads at once. It may give up
  /// and return null when `stop` says so.
  std::function<std::shared_ptr<void>(int64_t job, FunctionRef<bool()> stop)> read;
  int64_t batches;      // in the epoch
  int64_t first_batch;  // where this pass begins
  int64_t capacity;     // batches that may be busy or waiting
  double timeout = 0;   // seconds that next() waits for a worker; 0: for ever
  /// For messages: "samples 6, 7, …" of a job.
  std::function<std::string(int64_t job)> describe;
};

/// Batch b of the epoch is job b. It lives in place b % capacity of a ring:
///
///   free ──a worker takes b──▶ busy ──all samples read──▶ ready ──next() takes it──▶ free
///                                └────a sample threw────▶ failed ──next() rethrows──▶ pass over
///
/// Workers take jobs in order, and job b only when b < taken + capacity: so at most `capacity`
/// batches exist beside the one that the caller holds, and next() hands them out in order however
/// the workers are scheduled. Which samples a job holds and which random numbers they draw depends
/// on b alone.
///
/// The memory of a batch is its own: it is taken from a caching allocator (pinned memory: one that
/// does not hand a block out again before the copies queued from it are done), so that a pass
/// circulates the same few blocks.
///
/// Stopping (destruction, or an error that was handed out): workers look at a flag between two
/// samples and before waiting; the destructor waits for them, no longer than the timeout. One mutex
/// guards everything but the batch being read, which belongs to its worker. After a timeout the
/// threads are left behind instead, with all they refer to.
class EpochRun {
 public:
  /// `threads`: acquired for this pass, which releases them; null: next() reads in the calling
  /// thread.
  EpochRun(EpochPlan plan, std::shared_ptr<WorkerThreads> threads);
  ~EpochRun();
  EpochRun(const EpochRun&) = delete;
  EpochRun& operator=(const EpochRun&) = delete;

  /// The next batch; null at the end of the epoch and ever after, also after an error.
  /// throws: the error of the first job that failed, when its turn has come; what a worker's init
  /// threw; DataError after the timeout; StateError in a forked child.
  std::shared_ptr<void> next();

  /// Did next() throw?
  bool failed() const;
  /// Would next() return at once?
  bool ready() const;
  /// Batches that wait to be taken.
  int64_t waiting() const;

 private:
  struct State;
  static void work(State& state, std::exception_ptr init_error);
  std::shared_ptr<void> next_here();
  std::shared_ptr<void> next_of_workers();
  void stop();
  bool is_forked() const;  // its threads are another process's, and a lock may be held for ever

  std::shared_ptr<State> state_;
  std::shared_ptr<WorkerThreads> threads_;  // null: none, or they are released
  const bool has_workers_;
  const int process_;
};

}  // namespace lathe::data
