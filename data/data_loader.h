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

/// `for (auto& [x, y] : loader)` runs one epoch. Each begin() starts the next epoch; the first is
/// 0.
///
/// What a batch holds is a function of (data set, options, epoch, batch number). It never depends
/// on num_workers, prefetch_factor or timing. Besides the batch in use, at most num_workers *
/// prefetch_factor batches exist.
///
/// An exception of Dataset::read comes out of the iterator's ++ (or of begin()) when it is that
/// batch's turn, as described at read_batch. The iterator is then at its end, and the next begin()
/// starts the next epoch. An exception of worker_init_fn comes out of the next ++.
///
/// An iterator may be dropped at any time: its threads finish the sample they are reading and then
/// end or, with persistent_workers, wait for the next epoch.
///
/// A worker that takes longer than `timeout` causes a DataError that names the batch and its
/// samples. The thread is left running, so whatever the data set refers to must stay alive. A
/// forked child has no worker threads: there an iterator begun before fork() throws StateError.
///
/// Only one thread may use a loader at a time. Several iterators of one loader may exist at once;
/// the loader's state is the position of the one that began last.
class LATHE_API DataLoader {
 public:
  using Iterator = BatchIterator<Batch>;

  /// Keeps a reference: `dataset` must outlive the loader and its iterators.
  /// throws: ValueError for options out of range or that exclude each other.
  explicit DataLoader(const Dataset& dataset, DataLoaderOptions options = {});
  explicit DataLoader(const Dataset&& dataset, DataLoaderOptions options = {}) = delete;
  /// Keeps the data set alive.
  explicit DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {});

  /// throws: what the first batch throws; IndexError, ValueError if a sampler gives indices that do
  /// not fit.
  Iterator begin() { return Iterator(std::make_shared<Pass<Batch>>(start())); }
  std::default_sentinel_t end() const { return std::default_sentinel; }

  /// Batches in an epoch.
  int64_t size() const { return core_.size(); }
  const Dataset& dataset() const { return *dataset_; }
  const DataLoaderOptions& options() const { return core_.options(); }

  /// The epoch that the next begin() will run.
  int64_t epoch() const { return core_.epoch(); }
  /// Makes the next begin() run `epoch` from batch `first_batch` on, to resume training in the
  /// middle of an epoch.
  /// throws: ValueError for a negative number.
  void set_epoch(int64_t epoch, int64_t first_batch = 0) { core_.set_epoch(epoch, first_batch); }

  /// What decides the next batch: `epoch`, `batch` and `seed`. A state saved after the step on a
  /// batch leads to the following batch; a state saved after an epoch leads to the next epoch.
  StateDict state_dict() const { return core_.state_dict(); }
  /// The next begin() continues where `state` was saved. If that was after the last batch of an
  /// epoch but before its end was seen, the next begin() gives an epoch without batches.
  /// throws: ValueError, ShapeError; the loader is then as before.
  void load_state_dict(const StateDict& state) { core_.load_state_dict(state); }

  /// How well the workers keep up.
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
