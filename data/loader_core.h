// What all loaders share: options, the order of samples, passes over them, saved positions, worker
// threads, statistics. The loaders: data_loader.h, collate_loader.h, iterable_loader.h.
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
#include "lathe/core/hooks/range.h"
#include "lathe/core/state_dict.h"
#include "lathe/data/sampler.h"

namespace lathe::data {

class EpochRun;
class WorkerThreads;

/// A value for num_workers: one thread fewer than there are usable processors, at least 1, at most
/// 16.
inline constexpr int64_t kAutoWorkers = std::numeric_limits<int64_t>::min();

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;     // true: a new random order in every epoch
  int64_t num_workers = 0;  // threads that read ahead; 0: the caller's thread reads each batch
  // Page-locked batches, for copies to a GPU. Without a GPU ignored, with one message.
  bool pin_memory = false;
  bool drop_last = false;                       // true: no batch smaller than batch_size
  uint64_t seed = 0;                            // of the order and of every sample's random numbers
  int64_t prefetch_factor = 2;                  // batches per worker that are read ahead
  std::shared_ptr<const Sampler> sampler = {};  // replaces shuffle
  // Replaces batch_size, shuffle, sampler and drop_last.
  std::shared_ptr<const BatchSampler> batch_sampler = {};
  double timeout = 0;  // seconds to wait for a worker's batch; 0: no limit
  // Called in each worker thread before its first sample, with the worker's number.
  std::function<void(int64_t)> worker_init_fn = {};
  bool persistent_workers = false;  // true: the threads stay from epoch to epoch
  // Asked before each sample. When it says true, no further batch is read, and the pass ends soon.
  // Called concurrently.
  std::function<bool()> stop = {};
};

/// Statistics of how well a loader keeps up, since it was made or since reset_stats().
struct LoaderStats {
  int64_t batches = 0;      // handed out
  double wait_seconds = 0;  // that the caller waited for them; without workers: spent reading them
  double mean_ready = 0;    // mean number of batches that were ready when one was asked for
};

/// What passes have in common, whatever their batches are: the order of jobs, the loader's position
/// and statistics. A batch is known by the place where it was read.
class LATHE_API PassCore {
 public:
  /// Calls `take` with the place of the next batch; EpochRun::next() says more.
  void take(FunctionRef<void(int64_t place)> take);
  bool ready() const;
  void hand_out(bool is_batch);
  int64_t epoch() const { return epoch_; }

  /// The first batch that has not been handed out.
  struct Position {
    int64_t epoch = 0, batch = 0;
  };

 private:
  friend class LoaderCore;
  PassCore(std::shared_ptr<EpochRun> run, std::shared_ptr<Position> position,
           std::shared_ptr<LoaderStats> stats);

  std::shared_ptr<EpochRun> run_;
  int64_t epoch_;
  std::shared_ptr<Position> position_;  // the loader reads it until it begins another pass
  std::shared_ptr<LoaderStats> stats_;
};

/// Where an iterator's batches come from.
template <class B>
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// The next batch; null at the end, and after an error.
  virtual std::shared_ptr<B> next() = 0;
};

/// One pass over the batches of an epoch.
template <class B>
class Pass final : public BatchSource<B> {
 public:
  /// The places in which batches wait, and the pass that reads into them.
  using Places = std::shared_ptr<std::vector<std::shared_ptr<B>>>;
  Pass(Places places, PassCore core) : places_(std::move(places)), core_(std::move(core)) {}

  /// The next batch; null at the end.
  /// throws: as described at DataLoader.
  std::shared_ptr<B> take() {
    std::shared_ptr<B> batch;
    core_.take([&](int64_t place) { batch = std::move((*places_)[static_cast<size_t>(place)]); });
    return batch;
  }
  /// True if take() would return without waiting.
  bool ready() const { return core_.ready(); }
  /// The user has received what take() returned, a batch or the end: the loader's state now leads
  /// to the next batch, or epoch.
  void hand_out(bool is_batch) { core_.hand_out(is_batch); }
  int64_t epoch() const { return core_.epoch(); }

  std::shared_ptr<B> next() override {
    std::shared_ptr<B> batch = take();
    hand_out(batch != nullptr);
    return batch;
  }

 private:
  Places places_;
  PassCore core_;
};

/// Makes the batch of some samples. Called from several threads at the same time. It may give up
/// between two samples and return null if `stop` returns true.
template <class B>
using ReadBatch = std::function<std::shared_ptr<B>(std::span<const int64_t> indices, uint64_t seed,
                                                   int64_t epoch, FunctionRef<bool()> stop)>;

class LATHE_API LoaderCore {
 public:
  /// For a data set of `samples` samples.
  /// throws: ValueError for options out of range or that exclude each other.
  LoaderCore(int64_t samples, DataLoaderOptions options);

  /// Batches in the next epoch.
  int64_t size() const;
  const DataLoaderOptions& options() const { return options_; }
  int64_t epoch() const { return epoch_; }
  void set_epoch(int64_t epoch, int64_t first_batch);
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

  /// Begins the next epoch. `workers` replaces options().num_workers.
  /// throws: IndexError, ValueError if a sampler gives indices that do not fit; OutOfMemoryError
  /// without threads.
  template <class B>
  Pass<B> begin(ReadBatch<B> read) {
    return begin(std::move(read), options_.num_workers);
  }
  template <class B>
  Pass<B> begin(ReadBatch<B> read, int64_t workers) {
    auto places = std::make_shared<std::vector<std::shared_ptr<B>>>(most_ahead(workers));
    const auto into = [places, read = std::move(read)](std::span<const int64_t> indices,
                                                       uint64_t seed, int64_t epoch, int64_t place,
                                                       FunctionRef<bool()> stop) {
      auto& mine = (*places)[static_cast<size_t>(place)];
      mine = read(indices, seed, epoch, stop);
      return mine != nullptr;
    };
    return {places, begin_core(into, workers)};
  }

  LoaderStats stats() const { return *stats_; }
  void reset_stats() { *stats_ = {}; }

 private:
  /// Reads the batch of some samples into a place.   → false if it gave up
  using ReadPlace = std::function<bool(std::span<const int64_t> indices, uint64_t seed,
                                       int64_t epoch, int64_t place, FunctionRef<bool()> stop)>;
  PassCore begin_core(ReadPlace read, int64_t workers);
  /// Places that are enough for the batches that are being read or waiting.
  size_t most_ahead(int64_t workers) const;
  std::shared_ptr<WorkerThreads> threads_for(int64_t workers);

  int64_t samples_;
  DataLoaderOptions options_;
  int64_t epoch_ = 0;  // of the next begin()
  int64_t first_batch_ = 0;
  std::shared_ptr<const PassCore::Position> position_;  // of the last begin() or set_epoch()
  std::shared_ptr<WorkerThreads> threads_;              // persistent ones, once there are any
  std::shared_ptr<LoaderStats> stats_;
};

/// What range-for needs of a loader. It is an input iterator: copies share the source, so ++ on one
/// moves all, but each keeps its batch until its own ++.
template <class B>
class BatchIterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = B;
  using difference_type = std::ptrdiff_t;

  /// Stands at the first batch.
  explicit BatchIterator(std::shared_ptr<BatchSource<B>> source) : source_(std::move(source)) {
    ++*this;
  }

  B& operator*() const { return *batch_; }
  B* operator->() const { return batch_.get(); }
  BatchIterator& operator++() {
    batch_ = nullptr;  // frees its memory for the next batch; and if next() throws, this is the end
    const profile::OpRange range("DataLoader.next", {}, profile::Kind::kData);
    batch_ = source_->next();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const BatchIterator& it, std::default_sentinel_t) {
    return it.batch_ == nullptr;
  }

 private:
  std::shared_ptr<BatchSource<B>> source_;
  std::shared_ptr<B> batch_;  // null: at the end
};

}  // namespace lathe::data
