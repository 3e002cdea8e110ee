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
/// time. After fork() the child has none of them: there the destructor leaves all as it is, since a
/// lock may be held, or a condition waited for, by a thread that does not exist.
class WorkerThreads {
 public:
  /// Called as task(worker, error): worker from 0; error is what `init` threw just before, in this
  /// thread.
  using Task = std::function<void(int64_t, std::exception_ptr)>;

  /// `init(worker)`, if there is one, is called in each thread before its first task, and, where it
  /// threw, before the next one.
  /// throws: OutOfMemoryError if the system gives no more threads.
  WorkerThreads(int64_t count, std::function<void(int64_t)> init);
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  int64_t count() const { return static_cast<int64_t>(threads_.size()); }
  bool has_init() const;

  /// Makes the caller the user. False: there is one, or the threads were given up.
  bool acquire() { return !taken_.exchange(true); }
  /// The user is done; the threads are idle.
  void release() { taken_ = false; }

  /// Every thread runs the task once. They must be idle.
  void run(Task task);
  /// Until every thread is idle, or for so many seconds (0: for ever); → are they?
  bool wait(double seconds = 0);
  /// Leaves the threads to themselves: one hangs. What the task refers to must live on.
  void give_up();

 private:
  struct State;
  static void work(State& state, int64_t worker);
  void quit();

  std::shared_ptr<State> state_;  // the threads share it: they may be left behind
  std::vector<std::thread> threads_;
  std::atomic<bool> taken_ = false;
  int process_;
};

/// What getpid() gives.
int process_number() noexcept;

}  // namespace lathe::data
