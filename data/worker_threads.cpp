// WorkerThreads: the threads' loop, waiting with a limit, and the cases of fork() and of a hang.
#include "lathe/data/worker_threads.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include <unistd.h>

#include "lathe/core/log.h"
#include "lathe/core/start_thread.h"

namespace lathe::data {

int process_number() noexcept { return static_cast<int>(::getpid()); }

struct WorkerThreads::State {
  std::function<void(int64_t)> init;
  std::mutex mutex;
  std::condition_variable wake, idle;
  std::shared_ptr<const Task> task;  // shared, because copying a function needs memory
  uint64_t round = 0;                // number of the present task
  int64_t busy = 0;
  bool quit = false;
};

WorkerThreads::WorkerThreads(int64_t count, std::function<void(int64_t)> init)
    : state_(std::make_shared<State>()), asked_(count), process_(process_number()) {
  state_->init = std::move(init);
  try {
    threads_.reserve(static_cast<size_t>(count));
    for (int64_t k = 0; k < count; ++k) {
      threads_.push_back(start_thread(concat("DataLoader: worker ", k, " of ", count),
                                      [state = state_, k] { work(*state, k); }));
    }
  } catch (const ThreadError& error) {
    if (threads_.empty()) throw;
    warn("DataLoader: only ", threads_.size(), " of ", count,
         " workers could be started: ", error.message());
  } catch (...) {
    quit();  // threads that run already must not outlive this object
    throw;
  }
}

bool WorkerThreads::has_init() const { return state_->init != nullptr; }

WorkerThreads::~WorkerThreads() {
  if (process_number() == process_) {
    quit();
  } else {
    for (std::thread& thread : threads_) thread.detach();
    new std::shared_ptr<State>(state_);  // leaked on purpose: see the header
  }
}

void WorkerThreads::quit() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->quit = true;
  }
  state_->wake.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void WorkerThreads::work(State& state, int64_t worker) {
  uint64_t seen = 0;
  bool initialised = state.init == nullptr;
  std::unique_lock lock(state.mutex);
  for (;;) {
    state.wake.wait(lock, [&] { return state.quit || state.round != seen; });
    if (state.quit) return;
    std::shared_ptr<const Task> task = state.task;
    seen = state.round;
    lock.unlock();

    std::exception_ptr error;
    try {
      if (!initialised) state.init(worker);
      initialised = true;
    } catch (...) {
      error = std::current_exception();
    }
    (*task)(worker, std::move(error));
    task = nullptr;  // destroyed before anybody learns that the task is done

    lock.lock();
    if (--state.busy == 0) {
      state.task = nullptr;
      state.idle.notify_all();
    }
  }
}

void WorkerThreads::run(Task task) {
  auto shared = std::make_shared<const Task>(std::move(task));
  {
    const std::lock_guard lock(state_->mutex);
    state_->task = std::move(shared);
    state_->busy = count();
    ++state_->round;
  }
  state_->wake.notify_all();
}

bool WorkerThreads::wait(double seconds) {
  std::unique_lock lock(state_->mutex);
  const auto idle = [this] { return state_->busy == 0; };
  if (seconds > 0) return state_->idle.wait_for(lock, std::chrono::duration<double>(seconds), idle);
  state_->idle.wait(lock, idle);
  return true;
}

void WorkerThreads::give_up() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->quit = true;
  }
  state_->wake.notify_all();
  for (std::thread& thread : threads_) thread.detach();
}

}  // namespace lathe::data
