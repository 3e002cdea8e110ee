// EpochRun: the ring of jobs, the workers' loop, and how a pass stops; see the diagram in
// epoch_run.h.
#include "lathe/data/epoch_run.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/data/worker_threads.h"

namespace lathe::data {
namespace {

enum class Stage : uint8_t { kFree, kBusy, kReady, kFailed };

}  // namespace

struct EpochRun::State {
  explicit State(EpochSpec p)
      : spec(std::move(p)), next_job(spec.first_batch), taken(spec.first_batch) {}

  struct Place {
    Stage stage = Stage::kFree;
    std::exception_ptr error;
  };
  int64_t number_of_place(int64_t job) const { return job % capacity(); }
  Place& place(int64_t job) { return ring[static_cast<size_t>(number_of_place(job))]; }
  int64_t capacity() const { return static_cast<int64_t>(ring.size()); }

  const EpochSpec spec;
  std::vector<Place> ring;
  std::mutex mutex;
  std::condition_variable job_is_free, batch_is_there;
  int64_t next_job;      // the first that no worker has taken
  int64_t taken;         // the first that next() has not handed out
  int64_t waiting = 0;   // places that are ready
  int64_t starting = 0;  // workers whose init has not ended
  std::exception_ptr init_error;
  std::atomic<bool> stop = false;
};

EpochRun::EpochRun(EpochSpec spec, std::shared_ptr<WorkerThreads> threads)
    : state_(std::make_shared<State>(std::move(spec))),
      threads_(std::move(threads)),
      has_workers_(threads_ != nullptr),
      process_(process_number()) {
  if (!has_workers_) return;
  state_->ring.resize(static_cast<size_t>(state_->spec.capacity));
  if (threads_->has_init()) state_->starting = threads_->count();
  threads_->run(
      [state = state_](int64_t, std::exception_ptr error) { work(*state, std::move(error)); });
}

EpochRun::~EpochRun() {
  if (is_forked()) {
    new std::shared_ptr<State>(state_);  // leaked: a lock may stay held for ever (WorkerThreads)
  } else {
    stop();
  }
}

void EpochRun::stop() {
  state_->stop = true;
  if (threads_ == nullptr) return;
  {
    // Now no worker is between its look at the flag and its wait, so the notice below reaches all.
    const std::lock_guard lock(state_->mutex);
  }
  state_->job_is_free.notify_all();
  if (threads_->wait(state_->spec.timeout)) {
    threads_->release();
  } else {
    threads_->give_up();
  }
  threads_ = nullptr;
}

void EpochRun::work(State& state, std::exception_ptr init_error) {
  const profile::MemoryTagScope data(profile::MemoryTag::kData);
  std::unique_lock lock(state.mutex);
  if (state.starting > 0 && --state.starting == 0) state.batch_is_there.notify_one();
  if (init_error) {
    state.init_error = std::move(init_error);
    state.batch_is_there.notify_one();
    return;
  }
  for (;;) {
    state.job_is_free.wait(lock, [&] {
      return state.stop || state.next_job >= state.spec.batches ||
             state.next_job < state.taken + state.capacity();
    });
    if (state.stop || state.next_job >= state.spec.batches) return;
    const int64_t job = state.next_job++;
    state.place(job).stage = Stage::kBusy;
    lock.unlock();

    std::exception_ptr error;
    try {
      const auto stopped = [&] { return state.stop.load(std::memory_order_relaxed); };
      if (!state.spec.read(job, state.number_of_place(job), stopped)) {
        lock.lock();
        state.stop = true;
        state.job_is_free.notify_all();
        state.batch_is_there.notify_one();
        return;
      }
    } catch (...) {
      error = std::current_exception();
    }

    lock.lock();
    State::Place& mine = state.place(job);
    mine.stage = error ? Stage::kFailed : Stage::kReady;
    mine.error = std::move(error);
    ++state.waiting;
    if (job == state.taken) state.batch_is_there.notify_one();
  }
}

bool EpochRun::next(FunctionRef<void(int64_t place)> take) {
  LATHE_CHECK(
      StateError, !is_forked(),
      "DataLoader: a forked process has none of the worker threads; call begin() after fork()");
  if (state_->taken >= state_->spec.batches || state_->stop) return false;
  return has_workers_ ? next_of_workers(take) : next_here(take);
}

bool EpochRun::next_of_workers(FunctionRef<void(int64_t)> take) {
  State& state = *state_;
  std::exception_ptr error;
  {
    std::unique_lock lock(state.mutex);
    State::Place& wanted = state.place(state.taken);
    const auto arrived = [&] {
      return state.stop || state.init_error ||
             (state.starting == 0 && wanted.stage >= Stage::kReady);
    };
    if (state.spec.timeout <= 0) {
      state.batch_is_there.wait(lock, arrived);
    } else if (!state.batch_is_there.wait_for(
                   lock, std::chrono::duration<double>(state.spec.timeout), arrived)) {
      const int64_t job = state.taken;
      state.stop = true;
      lock.unlock();
      state.job_is_free.notify_all();
      std::exchange(threads_, nullptr)->give_up();
      LATHE_FAIL(DataError, "DataLoader: batch ", job, " (", state.spec.describe(job),
                 ") was not ready within the timeout of ", state.spec.timeout,
                 " s; the loader gives its worker threads up");
    }
    if (state.stop) return false;
    if (state.init_error) {
      error = state.init_error;
    } else {
      error = std::move(wanted.error);
      if (!error) take(state.number_of_place(state.taken));
      wanted = {};
      ++state.taken;
      --state.waiting;
    }
  }
  state.job_is_free.notify_one();
  if (error) {
    stop();
    std::rethrow_exception(error);
  }
  return true;
}

bool EpochRun::next_here(FunctionRef<void(int64_t)> take) {
  const profile::MemoryTagScope data(profile::MemoryTag::kData);
  const int64_t job = state_->taken++;
  try {
    if (state_->spec.read(job, 0, [] { return false; })) {
      take(0);
      return true;
    }
    state_->stop = true;
    return false;
  } catch (...) {
    state_->stop = true;
    throw;
  }
}

bool EpochRun::is_forked() const { return has_workers_ && process_number() != process_; }

bool EpochRun::failed() const { return state_->stop; }

bool EpochRun::ready() const {
  if (is_forked() || state_->stop || state_->taken >= state_->spec.batches) return true;
  if (!has_workers_) return false;
  const std::lock_guard lock(state_->mutex);
  return state_->place(state_->taken).stage >= Stage::kReady;
}

int64_t EpochRun::waiting() const {
  if (!has_workers_ || is_forked()) return 0;
  const std::lock_guard lock(state_->mutex);
  return state_->waiting;
}

}  // namespace lathe::data
