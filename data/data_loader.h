// Batches of a data set, in a sampler's order, read ahead by worker threads. How the threads work
// together is drawn in epoch_run.h.
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

/// `for (auto& [x, y] : loader)` is one epoch; each begin() starts the next one, the first is epoch
/// 0.
///
/// What a batch holds is a function of (data set, options, epoch, batch number): never of
/// num_workers, prefetch_factor or timing. At most num_workers * prefetch_factor batches exist
/// beside the one being used.
///
/// An exception of Dataset::read comes out of the iterator's ++ (or of begin()) when the turn of
/// its batch has come, as described at read_batch; the iterator is then at its end, and the next
/// begin() starts the next epoch. An iterator may be dropped at any moment: its threads finish the
/// sample they are reading and end, or, with persistent_workers, wait for the next epoch.
///
/// What worker_init_fn throws comes out of the next ++. A worker that takes longer than `timeout`
/// is a DataError naming the batch and its samples; its thread is left behind, so whatever the data
/// set refers to must live on. A forked child has no worker threads: there, an iterator begun
/// before fork() throws StateError.
///
/// One thread may use a loader at a time. Several iterators of one loader may live at once; the
/// loader's state is the position of the one that began last.
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
  Iterator begin() { return Iterator(std::make_shared<PassStream<Batch>>(start())); }
  std::default_sentinel_t end() const { return std::default_sentinel; }

  /// Batches in an epoch.
  int64_t size() const { return core_.size(); }
  const Dataset& dataset() const { return *dataset_; }
  const DataLoaderOptions& options() const { return core_.options(); }

  /// The epoch that the next begin() will run.
  int64_t epoch() const { return core_.epoch(); }
  /// Makes the next begin() run `epoch`, beginning with batch `first_batch`: how training goes
  /// on where it stopped.
  /// throws: ValueError for a negative number.
  void set_epoch(int64_t epoch, int64_t first_batch = 0) { core_.set_epoch(epoch, first_batch); }

  /// What decides the next batch: `epoch`, `batch` and `seed`. Saved after the step on a batch, it
  /// leads to the batch after that one; saved after an epoch, to the next epoch.
  StateDict state_dict() const { return core_.state_dict(); }
  /// The next begin() goes on where `state` was saved. After the last batch of an epoch, but
  /// before its end was seen, that is an epoch without batches.
  /// throws: ValueError, ShapeError; the loader is then as it was.
  void load_state_dict(const StateDict& state) { core_.load_state_dict(state); }

  /// How well the workers keep up.
  LoaderStats stats() const { return core_.stats(); }
  void reset_stats() { core_.reset_stats(); }

 private:
  friend class DeviceBatches;
  Pass start();
  Pass start_indices();  // batches that hold nothing but their indices

  std::shared_ptr<const Dataset> dataset_;
  LoaderCore core_;
};

}  // namespace lathe::data
