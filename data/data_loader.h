// DataLoader: batches of a data set, in a sampler's order, read ahead by worker threads.
// epoch_run.h has a diagram of how the threads work together.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>

#include "lathe/core/config.h"
#include "lathe/core/state_dict.h"
#include "lathe/data/batch.h"
#include "lathe/data/dataset.h"
#include "lathe/data/loader_core.h"

namespace lathe::data {

/// `for (auto& [x, y] : loader)` runs one epoch. Each begin() starts the next epoch; the first
/// epoch is 0.
///
/// The contents of a batch depend only on data set, options, epoch and batch number, and never on
/// num_workers, prefetch_factor or timing. Besides the batch in use, at most
/// num_workers * prefetch_factor batches exist.
///
/// If Dataset::read throws, the iterator's ++ (or begin()) throws when it would return the batch of
/// the failed sample. The message has the sample's index. The iterator is then at its end, and the
/// next begin() starts the next epoch. If worker_init_fn throws, the next ++ throws its exception.
///
/// An iterator may be destroyed at any time. Its threads finish the sample that they are reading.
/// Then they end or, with persistent_workers, wait for the next epoch.
///
/// If a worker takes longer than `timeout`, the iterator throws a DataError that names the batch
/// and its samples. The worker's thread keeps running, so everything that the data set refers to
/// must stay alive. In a forked child, an iterator begun before fork() throws StateError, because
/// worker threads do not survive fork().
///
/// Only one thread may use a loader at a time. Several iterators of one loader may exist at the
/// same time. The loader's state is the position of the iterator that began last.
class LATHE_API DataLoader {
 public:
  using Iterator = BatchIterator<Batch>;

  /// The loader refers to `dataset`, which must outlive the loader and its iterators.
  /// throws: ValueError for options that are out of range or exclude each other, and for null.
  explicit DataLoader(const Dataset& dataset, DataLoaderOptions options = {});
  explicit DataLoader(const Dataset&& dataset, DataLoaderOptions options = {}) = delete;
  /// Keeps the data set alive.
  explicit DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {});

  /// Starts an epoch.
  /// throws: what the first batch throws; IndexError, ValueError if a sampler returns invalid
  /// indices.
  Iterator begin() { return Iterator(std::make_shared<Pass<Batch>>(start())); }
  std::default_sentinel_t end() const { return std::default_sentinel; }

  /// The number of batches in an epoch.
  int64_t size() const { return core_.size(); }
  const Dataset& dataset() const { return *dataset_; }
  const DataLoaderOptions& options() const { return core_.options(); }

  /// The epoch that the next begin() will run.
  int64_t epoch() const { return core_.epoch(); }
  /// Makes the next begin() run `epoch` from batch `first_batch` on. Use it to resume training in
  /// the middle of an epoch.
  /// throws: ValueError for a negative number.
  void set_epoch(int64_t epoch, int64_t first_batch = 0) { core_.set_epoch(epoch, first_batch); }

  /// The state that decides the next batch: `epoch`, `batch` and `seed`. A state saved after the
  /// step on a batch continues with the following batch. A state saved after an epoch continues
  /// with the next epoch.
  StateDict state_dict() const { return core_.state_dict(); }
  /// Makes the next begin() continue where `state` was saved. If `state` was saved after the last
  /// batch of an epoch but before the loop ended, the next begin() gives an epoch without batches.
  /// throws: ValueError, ShapeError for an invalid state. Nothing has changed then.
  void load_state_dict(const StateDict& state) { core_.load_state_dict(state); }

  /// Statistics of how well the workers keep up.
  LoaderStats stats() const { return core_.stats(); }
  void reset_stats() { core_.reset_stats(); }

 private:
  template <class B>
  friend class Prefetched;
  Pass<Batch> start();
  Pass<Batch> start_indices();  // the batches hold only their indices

  std::shared_ptr<const Dataset> dataset_;
  LoaderCore core_;
};

}  // namespace lathe::data
