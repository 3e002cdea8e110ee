// One pass over a data set by worker threads. Internal to data/; users see data_loader.h.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "lathe/data/batch.h"
#include "lathe/data/dataset.h"

namespace lathe::data {

/// What one pass needs to know.
struct EpochPlan {
  std::shared_ptr<const Dataset> dataset;
  SampleSpec spec;
  std::vector<int64_t> order;  // sample indices of the whole epoch
  int64_t batch_size;
  int64_t batches;      // in the epoch
  int64_t first_batch;  // where this pass begins
  uint64_t seed;
  int64_t epoch;
  int64_t workers;   // 0: next() reads in the calling thread
  int64_t capacity;  // batches that may be busy or waiting
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
/// Stopping (destruction, or an error that was handed out): workers look at `stop_` between two
/// samples and before waiting; the destructor joins them. One mutex guards everything but the batch
/// being read, which belongs to its worker.
class EpochRun {
 public:
  /// throws: OutOfMemoryError if the system gives no more threads.
  explicit EpochRun(EpochPlan plan);
  ~EpochRun();
  EpochRun(const EpochRun&) = delete;
  EpochRun& operator=(const EpochRun&) = delete;

  /// The next batch; false at the end of the epoch and ever after, also after an error.
  /// throws: the error of the first job that failed, when its turn has come.
  bool next(Batch& out);

 private:
  enum class State : uint8_t { kFree, kBusy, kReady, kFailed };
  struct Place {
    State state = State::kFree;
    Batch batch;
    std::exception_ptr error;
  };

  std::span<const int64_t> samples_of(int64_t job) const;
  Place& place(int64_t job) { return ring_[static_cast<size_t>(job) % ring_.size()]; }
  bool next_here(Batch& out);
  void work();
  void stop();

  const EpochPlan plan_;
  std::vector<Place> ring_;
  std::mutex mutex_;
  std::condition_variable job_is_free_, batch_is_there_;
  int64_t next_job_;  // the first that no worker has taken
  int64_t taken_;     // the first that next() has not handed out
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace lathe::data
