// One pool for the process: a loop offers a job, its caller and the workers take chunks from it.
#include "lathe/core/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/core/compute_alone.h"
#include "lathe/core/error.h"
#include "lathe/core/log.h"
#include "lathe/core/process_limits.h"
#include "lathe/core/start_thread.h"

namespace lathe {

namespace {

using Body = FunctionRef<void(int64_t, int64_t)>;

using Clock = std::chrono::steady_clock;

// How long a waiting thread spins before it sleeps: about the cost of going to sleep and waking up.
constexpr std::chrono::nanoseconds kSpin{4000};

// How long it goes on spinning where the next loop is expected soon. Meanwhile it offers its
// processor to others: to the threads of OpenMP above all, with which oneDNN computes in between.
constexpr std::chrono::nanoseconds kPatience{100'000};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// → whether the condition came true within `limit` from `begin` on
template <class Condition>
bool spin_until(Condition condition, Clock::time_point begin, std::chrono::nanoseconds limit) {
  while (!condition()) {
    const auto passed = Clock::now() - begin;
    if (passed >= limit) return false;
    if (passed < kSpin) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
  return true;
}

// One loop. It lives on the stack of its caller, which waits until no worker is attached to it.
class Job {
 public:
  Job(int64_t n, int64_t grain, Body body)
      : n_(n), grain_(grain), chunks_(n / grain + (n % grain != 0)), body_(body) {}

  int64_t chunks() const { return chunks_; }

  // Takes chunks in ascending order until none is left.
  void work() {
    for (;;) {
      const int64_t chunk = next_.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= chunks_) return;
      try {
        run_chunk(chunk);
      } catch (...) {
        // All chunks before this one were taken earlier and will finish, so the error of the first
        // chunk is known at the end.
        next_.store(chunks_, std::memory_order_relaxed);
        const std::lock_guard lock(error_mutex_);
        if (chunk < error_chunk_) {
          error_chunk_ = chunk;
          error_ = std::current_exception();
        }
      }
    }
  }

  void work_alone() {
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) run_chunk(chunk);
  }

  void rethrow() {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void run_chunk(int64_t chunk) {
    const int64_t begin = chunk * grain_;
    body_(begin, begin + std::min(grain_, n_ - begin));
  }

  const int64_t n_, grain_, chunks_;
  const Body body_;
  std::atomic<int64_t> next_{0};
  std::mutex error_mutex_;
  int64_t error_chunk_ = INT64_MAX;
  std::exception_ptr error_;
};

thread_local bool inside_loop = false;
thread_local bool alone = false;  // under ComputeAlone

// While it lives, this thread is in a body: loops inside run in this thread alone.
class InsideLoop {
 public:
  InsideLoop() : before_(std::exchange(inside_loop, true)) {}
  ~InsideLoop() { inside_loop = before_; }

 private:
  const bool before_;
};

class Pool {
 public:
  explicit Pool(int threads) : threads_(threads) {}

  int threads() const { return threads_.load(std::memory_order_relaxed); }

  void set_threads(int threads) {
    const std::lock_guard turn(turn_);
    if (threads == this->threads()) return;
    stop_workers();
    threads_.store(threads, std::memory_order_relaxed);
  }

  void run(Job& job) {
    std::unique_lock turn(turn_, std::defer_lock);
    const InsideLoop inside;
    if (threads() == 1 || !turn.try_lock()) return job.work_alone();
    start_workers();
    const int64_t helpers = std::min<int64_t>(job.chunks() - 1, std::ssize(workers_));
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      places_.store(helpers, std::memory_order_relaxed);
    }
    for (int64_t i = 0; i < helpers; ++i) wake_.notify_one();
    job.work();
    wait_for_workers();
    job.rethrow();
  }

 private:
  void start_workers() {  // under turn_
    while (std::ssize(workers_) < threads() - 1 && short_of_ != threads()) {
      try {
        workers_.emplace_back(start_thread("thread pool", [this] { worker(); }));
      } catch (const ThreadError& error) {
        return go_on_with_fewer(error);
      } catch (const std::bad_alloc&) {
        return;  // go on with those that run
      }
    }
  }

  // Under turn_. The loops that follow ask for no more workers, because each request costs time.
  void go_on_with_fewer(const ThreadError& error) {
    short_of_ = threads();
    warn("loops run on ", workers_.size() + 1, " of ", threads(), " threads: ", error.message());
  }

  void stop_workers() {  // under turn_
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stop_ = false;
  }

  // After the caller has found no chunk left: until the last worker has done its chunk.
  void wait_for_workers() {
    const auto done = [this] { return attached_.load(std::memory_order_relaxed) == 0; };
    std::unique_lock lock(mutex_);
    places_.store(0, std::memory_order_relaxed);
    if (done()) return;
    lock.unlock();
    spin_until(done, Clock::now(), kPatience);
    lock.lock();
    done_.wait(lock, done);
  }

  void worker() {
    pthread_setname_np(pthread_self(), "lathe-pool");
    inside_loop = true;
    auto patience = kSpin;
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto begin = Clock::now();
      wait_for_place(lock, begin, patience);
      if (stop_) return;
      // Where this loop came soon the next one probably will.
      patience = Clock::now() - begin <= kPatience ? kPatience : kSpin;
      Job& job = *job_;
      places_.fetch_sub(1, std::memory_order_relaxed);
      attached_.fetch_add(1, std::memory_order_relaxed);
      lock.unlock();
      job.work();
      lock.lock();
      places_.store(0, std::memory_order_relaxed);  // no chunk is left
      if (attached_.fetch_sub(1, std::memory_order_relaxed) == 1) done_.notify_one();
    }
  }

  // Under the lock when it is called and when it returns. A place can be gone before the lock is
  // taken: then the worker spins on.
  void wait_for_place(std::unique_lock<std::mutex>& lock, Clock::time_point begin,
                      std::chrono::nanoseconds patience) {
    const auto offered = [this] { return places_.load(std::memory_order_relaxed) > 0; };
    bool waiting = true;
    while (waiting && !stop_ && !offered()) {
      lock.unlock();
      waiting = spin_until(offered, begin, patience);
      lock.lock();
    }
    wake_.wait(lock, [&] { return stop_ || offered(); });
  }

  std::atomic<int> threads_;
  std::mutex turn_;  // held by the loop that has the workers
  std::vector<std::thread> workers_;
  int short_of_ = 0;  // the number of threads that the system did not give

  // The atomics change under mutex_. They are atomic so that a spinning thread can read them
  // without it.
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;              // of the loop that runs, or of the last one
  std::atomic<int64_t> places_{0};  // how many more workers may take part in it
  std::atomic<int> attached_{0};    // how many take part
  bool stop_ = false;
};

std::atomic<Pool*> current_pool{nullptr};

// What launchers set, so that several processes share a machine's processors. OpenMP allows a list,
// of which the first number counts for us.
int initial_threads() {
  const char* const text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr) return usable_cpus();
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);
  const bool good = end != text && (*end == '\0' || *end == ',') && count >= 1 && count <= 1024;
  return good ? static_cast<int>(count) : usable_cpus();
}

// In the child of a fork the workers are gone, and a lock may be locked for ever. So the child gets
// a new pool, and the old one is left as it is.
void renew_pool_after_fork() { current_pool.store(new Pool(current_pool.load()->threads())); }

// Never destroyed: destructors of the program's static objects may still run loops, and the workers
// only sleep.
Pool& pool() {
  static const bool ready = [] {
    current_pool.store(new Pool(initial_threads()));
    pthread_atfork(nullptr, nullptr, renew_pool_after_fork);
    return true;
  }();
  static_cast<void>(ready);
  return *current_pool.load(std::memory_order_acquire);
}

}  // namespace

int usable_cpus() noexcept {
  try {
    return usable_cpus(std::string());
  } catch (const std::bad_alloc&) {
    return 1;
  }
}

int num_threads() noexcept { return alone ? 1 : pool().threads(); }

ComputeAlone::ComputeAlone() noexcept : before_(std::exchange(alone, true)) {}
ComputeAlone::~ComputeAlone() { alone = before_; }

void set_num_threads(int count) {
  LATHE_CHECK(ValueError, count >= 1, "set_num_threads: the count must be at least 1, got ", count);
  LATHE_CHECK(StateError, !inside_loop, "set_num_threads: called inside a parallel_for body");
  pool().set_threads(count);
}

void thread_pool_detail::run(int64_t n, int64_t grain, Body body) {
  LATHE_CHECK(ValueError, grain >= 1, "parallel_for: grain must be at least 1, got ", grain);
  Job job(n, grain, body);
  if (inside_loop) return job.work_alone();
  if (alone) {
    const InsideLoop inside;
    return job.work_alone();
  }
  pool().run(job);
}

}  // namespace lathe
