// IterableLoader: batches of samples that can only be read in sequence, such as the records of a
// stream or the rows of a query. For samples that can be read by index use DataLoader, which can
// shuffle.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>

#include "lathe/core/config.h"
#include "lathe/data/batch.h"
#include "lathe/data/dataset.h"
#include "lathe/data/loader_core.h"

namespace lathe::data {

/// A reading position in one shard.
class LATHE_API SampleStream {
 public:
  virtual ~SampleStream() = default;
  /// Writes the next sample completely into `out`.   → false after the last sample; `out` is
  /// unchanged then
  virtual bool next(Slot out) = 0;
};

/// A data set that is divided into shards: sequences of samples, such as files, that can be read in
/// parallel. shards() is their number. The batches depend on it, so it must be the same whatever
/// options the loader has (`num_workers`, for instance).
class LATHE_API IterableDataset {
 public:
  virtual ~IterableDataset() = default;
  virtual SampleSpec spec() const = 0;
  virtual int64_t shards() const { return 1; }
  /// Opens a shard at its beginning, 0 <= shard < shards(). Several threads call it at the same
  /// time. All random numbers of the shard must come from (seed, epoch, shard).
  virtual std::unique_ptr<SampleStream> open(int64_t shard, uint64_t seed, int64_t epoch) const = 0;
};

struct IterableLoaderOptions {
  int64_t batch_size = 1;
  int64_t num_workers = 0;  // threads that read ahead, or kAutoWorkers; those beyond shards() idle
  bool pin_memory = false;
  bool drop_last = false;  // true: no batch smaller than batch_size
  uint64_t seed = 0;
  int64_t prefetch_factor = 2;  // batches per worker that are read ahead
  double timeout = 0;           // seconds to wait for a worker's batch; 0: no limit
  std::function<void(int64_t)> worker_init_fn = {};
};

/// `for (auto& [x, y] : loader)` runs one epoch; each begin() starts the next. The first batch
/// comes from shard 0, the next from shard 1, and so on; shards that have ended are skipped. All
/// samples of a batch come from one shard, so each shard may end with a short batch. Batch::indices
/// counts the samples of a shard from 0.
///
/// Batches do not depend on num_workers, prefetch_factor or timing. Errors, destroyed iterators,
/// timeouts and forks are as described at DataLoader. An error that a stream throws names the shard
/// and the sample.
class LATHE_API IterableLoader {
 public:
  using Iterator = BatchIterator<Batch>;

  /// The loader refers to `dataset`, which must outlive the loader and its iterators.
  /// throws: ValueError for options out of range, or a data set that is null or has no shards.
  explicit IterableLoader(const IterableDataset& dataset, IterableLoaderOptions options = {});
  explicit IterableLoader(const IterableDataset&& dataset,
                          IterableLoaderOptions options = {}) = delete;
  /// Keeps the data set alive.
  explicit IterableLoader(std::shared_ptr<const IterableDataset> dataset,
                          IterableLoaderOptions options = {});

  /// Starts an epoch.
  /// throws: what the first batch throws.
  Iterator begin();
  std::default_sentinel_t end() const { return std::default_sentinel; }

  int64_t epoch() const { return epoch_; }
  /// Makes the next begin() run `epoch` from batch `first_batch` on. It reads the batches before
  /// `first_batch` and drops them.
  /// throws: ValueError for a negative number.
  void set_epoch(int64_t epoch, int64_t first_batch = 0);

 private:
  std::shared_ptr<const IterableDataset> dataset_;
  IterableLoaderOptions options_;
  int64_t epoch_ = 0, first_batch_ = 0;
};

}  // namespace lathe::data
