// Threads that wait for work between the passes of a loader. Internal to data/.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace lathe::data {

/// A fixed number of threads that all run the same task, one task after another, for one user at a
/// time. After fork() the child has none of them: there the destructor touches nothing, because a
/// thread that does not exist may hold a lock.
class WorkerThreads {
 public:
  /// Called as task(worker, error): `worker` counts from 0; `error` is what `init` threw just
  /// before in this thread.
  using Task = std::function<void(int64_t, std::exception_ptr)>;

  /// Calls `init(worker)`, if there is one, in each thread before its first task; if it threw,
  /// again before the next task. Warns if the system gives only some of the threads.
  /// throws: ThreadError if it gives none.
  WorkerThreads(int64_t count, std::function<void(int64_t)> init);
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  int64_t count() const { return static_cast<int64_t>(threads_.size()); }
  /// The count that was asked for.
  int64_t asked() const { return asked_; }
  bool has_init() const;

  /// Makes the caller the user. False: there already is one, or the threads were given up.
  bool acquire() { return !taken_.exchange(true); }
  /// Ends the use. The threads must be idle.
  void release() { taken_ = false; }

  /// Runs the task once in every thread. They must be idle.
  void run(Task task);
  /// Waits until every thread is idle, for at most `seconds` (0: no limit).   → whether they are
  /// idle
  bool wait(double seconds = 0);
  /// Detaches the threads, because one hangs. What the task refers to must stay alive.
  void give_up();

 private:
  struct State;
  static void work(State& state, int64_t worker);
  void quit();

  std::shared_ptr<State> state_;  // shared with the threads, which may outlive this object
  std::vector<std::thread> threads_;
  int64_t asked_;
  std::atomic<bool> taken_ = false;
  int process_;
};

/// getpid().
int process_number() noexcept;

}  // namespace lathe::data
