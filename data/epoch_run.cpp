#include "lathe/data/epoch_run.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "lathe/core/error.h"

namespace lathe::data {

EpochRun::EpochRun(EpochPlan plan)
    : plan_(std::move(plan)),
      ring_(static_cast<size_t>(plan_.workers > 0 ? plan_.capacity : 0)),
      next_job_(plan_.first_batch),
      taken_(plan_.first_batch) {
  try {
    for (int64_t k = 0; k < plan_.workers; ++k) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {  // those that run must not outlive this object
    const size_t started = workers_.size();
    stop();
    LATHE_FAIL(OutOfMemoryError, "DataLoader: no thread for worker ", started, " of ",
               plan_.workers, ": ", error.what());
  }
}

EpochRun::~EpochRun() { stop(); }

void EpochRun::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  job_is_free_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

std::span<const int64_t> EpochRun::samples_of(int64_t job) const {
  const int64_t begin = job * plan_.batch_size;
  const int64_t end = std::min(begin + plan_.batch_size, static_cast<int64_t>(plan_.order.size()));
  return std::span(plan_.order)
      .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

void EpochRun::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto may_start = [&] {
      return next_job_ >= plan_.batches || next_job_ < taken_ + static_cast<int64_t>(ring_.size());
    };
    job_is_free_.wait(lock, [&] { return stop_ || may_start(); });
    if (stop_ || next_job_ >= plan_.batches) return;
    const int64_t job = next_job_++;
    place(job).state = State::kBusy;
    lock.unlock();

    Batch batch;
    std::exception_ptr error;
    try {
      const auto stopped = [this] { return stop_.load(std::memory_order_relaxed); };
      if (!read_batch(*plan_.dataset, plan_.spec, samples_of(job), plan_.seed, plan_.epoch, stopped,
                      batch))
        return;
    } catch (...) {
      error = std::current_exception();
    }

    lock.lock();
    Place& mine = place(job);
    mine.state = error ? State::kFailed : State::kReady;
    mine.batch = std::move(batch);
    mine.error = std::move(error);
    if (job == taken_) batch_is_there_.notify_one();
  }
}

bool EpochRun::next(Batch& out) {
  if (taken_ >= plan_.batches || stop_) return false;
  if (plan_.workers == 0) return next_here(out);
  std::exception_ptr error;
  {
    std::unique_lock lock(mutex_);
    Place& wanted = place(taken_);
    batch_is_there_.wait(lock, [&] { return wanted.state >= State::kReady; });
    out = std::move(wanted.batch);
    error = std::exchange(wanted.error, nullptr);
    wanted = Place{};
    ++taken_;
  }
  job_is_free_.notify_one();
  if (error) {
    stop();
    std::rethrow_exception(error);
  }
  return true;
}

bool EpochRun::next_here(Batch& out) {
  const int64_t job = taken_++;
  try {
    read_batch(
        *plan_.dataset, plan_.spec, samples_of(job), plan_.seed, plan_.epoch, [] { return false; },
        out);
    return true;
  } catch (...) {
    stop_ = true;
    throw;
  }
}

}  // namespace lathe::data
