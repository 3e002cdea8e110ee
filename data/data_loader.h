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
#include "lathe/data/sampler.h"

namespace lathe::data {

class EpochRun;

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
};

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
/// sample they are reading and are joined.
///
/// One thread may use a loader at a time. Several iterators of one loader may live at once; the
/// loader's state is the position of the one that began last.
class LATHE_API DataLoader {
 public:
  class Iterator;

  /// Keeps a reference: `dataset` must outlive the loader and its iterators.
  /// throws: ValueError for options out of range, or shuffle together with a sampler.
  explicit DataLoader(const Dataset& dataset, DataLoaderOptions options = {});
  explicit DataLoader(const Dataset&& dataset, DataLoaderOptions options = {}) = delete;
  /// Keeps the data set alive.
  explicit DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options = {});

  /// throws: what the first batch throws; IndexError, ValueError if a sampler gives indices that do
  /// not fit.
  Iterator begin();
  std::default_sentinel_t end() const { return std::default_sentinel; }

  /// Batches in an epoch.
  int64_t size() const;
  const Dataset& dataset() const { return *dataset_; }
  const DataLoaderOptions& options() const { return options_; }

  /// The epoch that the next begin() will run.
  int64_t epoch() const { return epoch_; }
  /// Makes the next begin() run `epoch`, beginning with batch `first_batch`: how training goes
  /// on where it stopped.
  /// throws: ValueError for a negative number.
  void set_epoch(int64_t epoch, int64_t first_batch = 0);

  /// What decides the next batch: `epoch`, `batch` and `seed`. Saved after the step on a batch, it
  /// leads to the batch after that one; saved after an epoch, to the next epoch.
  StateDict state_dict() const;
  /// The next begin() goes on where `state` was saved. After the last batch of an epoch, but
  /// before its end was seen, that is an epoch without batches.
  /// throws: ValueError, ShapeError; the loader is then as it was.
  void load_state_dict(const StateDict& state);

 private:
  /// The first batch of a pass that has not been handed out. Each pass has its own.
  struct Position {
    int64_t epoch = 0, batch = 0;
  };

  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
  int64_t epoch_ = 0;  // of the next begin()
  int64_t first_batch_ = 0;
  std::shared_ptr<const Position> position_;  // of the last begin() or set_epoch()
};

/// An input iterator: copies share the pass, and ++ on one of them invalidates the batch of the
/// others.
class LATHE_API DataLoader::Iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;

  Batch& operator*() const { return *batch_; }
  Batch* operator->() const { return batch_.get(); }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& it, std::default_sentinel_t) { return it.run_ == nullptr; }

 private:
  friend class DataLoader;
  Iterator(std::shared_ptr<EpochRun> run, std::shared_ptr<Position> position);

  std::shared_ptr<EpochRun> run_;  // null: at the end
  std::shared_ptr<Batch> batch_;
  std::shared_ptr<Position> position_;  // the loader looks at it until it begins another pass
};

/// What prefetch returns: a loader whose batches are on a device.
class LATHE_API DeviceBatches {
 public:
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    Batch& operator*() const { return *batch_; }
    Batch* operator->() const { return batch_.get(); }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& it, std::default_sentinel_t end) {
      return it.host_ == end;
    }

   private:
    friend class DeviceBatches;
    Iterator(DataLoader::Iterator host, Device device);
    void copy();

    DataLoader::Iterator host_;
    Device device_;
    std::shared_ptr<Batch> batch_;
  };

  DeviceBatches(DataLoader& loader, Device device) : loader_(&loader), device_(device) {}
  Iterator begin() { return Iterator(loader_->begin(), device_); }
  std::default_sentinel_t end() const { return std::default_sentinel; }
  int64_t size() const { return loader_->size(); }

 private:
  DataLoader* loader_;
  Device device_;
};

/// The batches of `loader`, on `device`: `for (auto& [x, y] : prefetch(loader, device))`. On the
/// CPU they are the loader's own.   throws: NoCudaError.
LATHE_API DeviceBatches prefetch(DataLoader& loader, Device device);

}  // namespace lathe::data
