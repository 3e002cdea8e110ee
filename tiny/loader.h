// The loader: a thread makes batches while the caller computes with the last one. Between the two
// is a queue that holds a few. A full queue makes the thread wait, an empty one the caller: so a
// slow step needs no signal to hold the thread back, and there are at most ahead + 2 batches: those
// in the queue, the thread's and the caller's.
#pragma once

#include <condition_variable>
#include <exception>
#include <thread>

#include "cross_entropy.h"
#include "dataset.h"

namespace tiny {

/// Thread-safe. Elements come out in the order in which they went in.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}
  /// Waits for a place. False, and `element` is dropped, if the queue was closed.
  bool push(T element) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return elements_.size() < capacity_ || closed_; });
    if (closed_) return false;
    elements_.push_back(std::move(element));
    changed_.notify_all();
    return true;
  }

  /// Waits for an element. None if the queue was closed and is empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !elements_.empty() || closed_; });
    if (elements_.empty()) return std::nullopt;
    T element = std::move(elements_.front());
    elements_.pop_front();
    changed_.notify_all();
    return element;
  }

  /// From now on push() takes nothing, and pop() gives what is left.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  const size_t capacity_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<T> elements_;
  bool closed_ = false;
};

struct Batch {
  Tensor x;  // [N,1,H,W]
  Labels labels;
  std::vector<int64_t> indices;  // of the images in the data set
};

/// A batch is a function of (data set, indices) and of nothing else.
inline Batch make_batch(const Dataset& set, std::vector<int64_t> indices) {
  const int64_t pixels = set.height * set.width;
  Batch batch{Tensor({std::ssize(indices), 1, set.height, set.width}), {}, {}};
  double* to = batch.x.data();
  for (const int64_t index : indices) {
    check<ValueError>(0 <= index && index < set.size(), "make_batch: image ", index, " of ",
                      set.size());
    for (int64_t i = 0; i < pixels; ++i)
      *to++ = (set.pixels[index * pixels + i] / 255.0 - set.mean) / set.deviation;
    batch.labels.push_back(set.labels[index]);
  }
  batch.indices = std::move(indices);
  return batch;
}

struct LoaderOptions {
  int64_t batch_size = 128;
  bool shuffle = false;  // true: a new random order in every epoch
  uint64_t seed = 0;     // of the order
  size_t ahead = 2;      // batches that may wait
};

/// The batches of one epoch, in order; the last may be smaller. The data set must outlive it.
class Epoch {
 public:
  Epoch(const Dataset& set, const LoaderOptions& options, uint64_t epoch)
      : queue_(options.ahead),
        thread_([this, &set, options, epoch] { work(set, options, epoch); }) {}
  ~Epoch() {
    queue_.close();  // the thread ends with the batch in its hands
    thread_.join();
  }

  /// The next batch; none at the end.
  /// throws: what the thread threw, when it is that batch's turn.
  std::optional<Batch> next() {
    std::optional<Batch> batch = queue_.pop();
    if (!batch && error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return batch;
  }

 private:
  void work(const Dataset& set, const LoaderOptions& options, uint64_t epoch) {
    try {
      make_batches(set, options, epoch);
    } catch (...) {
      error_ = std::current_exception();  // the caller reads it after close()
    }
    queue_.close();
  }
  void make_batches(const Dataset& set, const LoaderOptions& options, uint64_t epoch) {
    check<ValueError>(options.batch_size > 0 && options.ahead > 0, "Epoch: batches of ",
                      options.batch_size, " and a queue of ", options.ahead);
    std::vector<int64_t> order(set.size());
    std::iota(order.begin(), order.end(), 0);
    if (options.shuffle) order = random_order(set.size(), options.seed, epoch);
    for (auto at = order.begin(); at != order.end();) {
      const auto end = at + std::min(options.batch_size, order.end() - at);
      if (!queue_.push(make_batch(set, {at, end}))) return;
      at = end;
    }
  }

  BoundedQueue<Batch> queue_;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace tiny

// What the real one adds, and why
// - data/epoch_run.h: several threads, because one cannot decode images as fast as a GPU learns
//   from them. They finish out of order, so a ring of places puts their batches back into it.
// - data/data_loader.h: the position within an epoch is three numbers, so a run goes on where it
//   was interrupted.
// - data/device/device_batches.h copies the next batch to the GPU on a stream of its own.
