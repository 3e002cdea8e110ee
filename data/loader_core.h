// What every loader is made of: options, the order of samples, passes over them, positions that can
// be saved, worker threads, statistics. Loaders: data_loader.h, collate_loader.h.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/function_ref.h"
#include "lathe/core/state_dict.h"
#include "lathe/data/sampler.h"

namespace lathe::data {

class EpochRun;
class WorkerThreads;

/// As num_workers: one thread for each usable processor but one, 1 to 16.
inline constexpr int64_t kAutoWorkers = std::numeric_limits<int64_t>::min();

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;     // true: a new random order in every epoch
  int64_t num_workers = 0;  // threads that read ahead; 0: batches are read when they are asked for
  bool pin_memory =
      false;  // page-locked batches, for copies to a GPU; ignored (and said once) without one
  bool drop_last = false;                       // true: no batch smaller than batch_size
  uint64_t seed = 0;                            // of the order and of every sample's random numbers
  int64_t prefetch_factor = 2;                  // batches per worker that are read ahead
  std::shared_ptr<const Sampler> sampler = {};  // instead of shuffle
  // Instead of batch_size, shuffle, sampler and drop_last.
  std::shared_ptr<const BatchSampler> batch_sampler = {};
  double timeout = 0;  // seconds that a batch of a worker is waited for; 0: for ever
  // Called in each worker thread before its first sample, with the worker's number.
  std::function<void(int64_t)> worker_init_fn = {};
  bool persistent_workers = false;  // true: the threads stay from epoch to epoch
};

/// How well a loader keeps up, since it was made or since reset_stats().
struct LoaderStats {
  int64_t batches = 0;      // handed out
  double wait_seconds = 0;  // that the caller waited for them; without workers: that reading took
  double mean_ready = 0;    // batches that lay ready when one was asked for
};

/// One pass over the batches of an epoch. A cheap handle; copies share the pass.
class LATHE_API Pass {
 public:
  /// The next batch; null at the end.
  /// throws: as described at DataLoader.
  std::shared_ptr<void> take();
  /// Would take() return at once?
  bool ready() const;
  /// What take() returned has reached the user: the loader's state now leads to the batch after it.
  void hand_out(const std::shared_ptr<void>& batch);
  int64_t epoch() const { return epoch_; }

  /// The first batch that has not been handed out.
  struct Position {
    int64_t epoch = 0, batch = 0;
  };

 private:
  friend class LoaderCore;
  Pass(std::shared_ptr<EpochRun> run, std::shared_ptr<Position> position,
       std::shared_ptr<LoaderStats> stats);

  std::shared_ptr<EpochRun> run_;
  int64_t epoch_;
  std::shared_ptr<Position> position_;  // the loader looks at it until it begins another pass
  std::shared_ptr<LoaderStats> stats_;
};

/// Makes the batch of some samples, whatever a batch is; called from several threads at once. May
/// give up between two samples and return null when `stop` says so.
using ReadBatch = std::function<std::shared_ptr<void>(
    std::span<const int64_t> indices, uint64_t seed, int64_t epoch, FunctionRef<bool()> stop)>;

class LATHE_API LoaderCore {
 public:
  /// Of a data set of `samples` samples.
  /// throws: ValueError for options out of range or that exclude each other.
  LoaderCore(int64_t samples, DataLoaderOptions options);

  /// Batches in the next epoch.
  int64_t size() const;
  const DataLoaderOptions& options() const { return options_; }
  int64_t epoch() const { return epoch_; }
  void set_epoch(int64_t epoch, int64_t first_batch);
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

  /// Begins the next epoch.
  /// throws: IndexError, ValueError if a sampler gives indices that do not fit; OutOfMemoryError
  /// without threads.
  Pass begin(ReadBatch read) { return begin(std::move(read), options_.num_workers); }
  Pass begin(ReadBatch read, int64_t workers);

  LoaderStats stats() const { return *stats_; }
  void reset_stats() { *stats_ = {}; }

 private:
  std::shared_ptr<WorkerThreads> threads_for(int64_t workers);

  int64_t samples_;
  DataLoaderOptions options_;
  int64_t epoch_ = 0;  // of the next begin()
  int64_t first_batch_ = 0;
  std::shared_ptr<const Pass::Position> position_;  // of the last begin() or set_epoch()
  std::shared_ptr<WorkerThreads> threads_;          // that stay, once there are any
  std::shared_ptr<LoaderStats> stats_;
};

/// Where an iterator's batches come from.
template <class B>
class BatchStream {
 public:
  virtual ~BatchStream() = default;
  /// Null at the end, and after an error.
  virtual std::shared_ptr<B> next() = 0;
};

/// The batches of a pass, each handed out as soon as it is taken.
template <class B>
class PassStream final : public BatchStream<B> {
 public:
  explicit PassStream(Pass pass) : pass_(std::move(pass)) {}
  std::shared_ptr<B> next() override {
    std::shared_ptr<void> batch = pass_.take();
    pass_.hand_out(batch);
    return std::static_pointer_cast<B>(std::move(batch));
  }

 private:
  Pass pass_;
};

/// What range-for needs of a loader. An input iterator: copies share the stream, so that ++ on one
/// moves all; each keeps its batch until then.
template <class B>
class BatchIterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = B;
  using difference_type = std::ptrdiff_t;

  /// At the first batch.
  explicit BatchIterator(std::shared_ptr<BatchStream<B>> stream) : stream_(std::move(stream)) {
    ++*this;
  }

  B& operator*() const { return *batch_; }
  B* operator->() const { return batch_.get(); }
  BatchIterator& operator++() {
    batch_ = nullptr;  // at the end, should next() throw; and its memory serves the next batch
    batch_ = stream_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const BatchIterator& it, std::default_sentinel_t) {
    return it.batch_ == nullptr;
  }

 private:
  std::shared_ptr<BatchStream<B>> stream_;
  std::shared_ptr<B> batch_;  // null: at the end
};

}  // namespace lathe::data
