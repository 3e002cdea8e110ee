// IterableLoader: shards that take turns, each read by one worker at a time.
#include "lathe/data/iterable_loader.h"

#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "lathe/core/device.h"
#include "lathe/core/error.h"
#include "lathe/data/epoch_run.h"
#include "lathe/data/loader_core.h"
#include "lathe/data/worker_threads.h"

namespace lathe::data {
namespace {

/// The shards of one pass. Job b reads a batch of shard b % shards, after that shard's batch
/// before.
class Shards {
 public:
  Shards(std::shared_ptr<const IterableDataset> dataset, const IterableLoaderOptions& options,
         int64_t epoch)
      : dataset_(std::move(dataset)),
        spec_(dataset_->spec()),
        options_(options),
        pinned_(options.pin_memory && cuda_is_available()),
        epoch_(epoch),
        shards_(static_cast<size_t>(dataset_->shards())) {}

  int64_t count() const { return static_cast<int64_t>(shards_.size()); }

  /// A batch; without samples if the shard has ended.
  std::shared_ptr<Batch> read(int64_t job, FunctionRef<bool()> stop) {
    const int64_t number = job % count(), round = job / count();
    Shard& shard = shards_[static_cast<size_t>(number)];
    std::unique_lock lock(shard.mutex);
    // Another worker has the job before. It looks at `stop` too, so this wait always ends.
    shard.turn.wait(lock, [&] { return shard.round == round; });
    const struct Next {
      Shard& shard;
      ~Next() {
        ++shard.round;
        shard.turn.notify_all();
      }
    } next{shard};
    auto batch = std::make_shared<Batch>();
    if (shard.ended) return batch;
    try {
      if (!shard.stream) shard.stream = dataset_->open(number, options_.seed, epoch_);
      LATHE_CHECK(DataError, shard.stream != nullptr, "the data set's open() returned null");
      if (!fill(shard, stop, *batch)) return nullptr;
    } catch (...) {
      shard.ended = true;
      rethrow_with_place(number, shard.samples);
    }
    return batch;
  }

 private:
  struct Shard {
    std::mutex mutex;
    std::condition_variable turn;
    std::unique_ptr<SampleStream> stream;
    int64_t round = 0, samples = 0;  // read so far
    bool ended = false;
  };

  bool fill(Shard& shard, FunctionRef<bool()> stop, Batch& batch) {
    const BatchBuffer buffer(spec_, options_.batch_size, pinned_);
    int64_t rows = 0;
    for (; rows < options_.batch_size; ++rows, ++shard.samples) {
      if (stop()) return false;
      if (!shard.stream->next(Slot(buffer, rows))) break;
    }
    if (rows < options_.batch_size) {
      shard.ended = true;
      shard.stream.reset();
      if (rows == 0 || options_.drop_last) return true;
    }
    batch.indices.resize(static_cast<size_t>(rows));
    std::iota(batch.indices.begin(), batch.indices.end(), shard.samples - rows);
    for (size_t f = 0; f < buffer.tensors().size(); ++f) {
      const Tensor part = buffer.tensors()[f].narrow(0, 0, rows);
      if (f == 0) {
        batch.x = part;
      } else if (f == 1) {
        batch.y = part;
      } else {
        batch.more.push_back(part);
      }
    }
    return true;
  }

  [[noreturn]] static void rethrow_with_place(int64_t shard, int64_t sample) {
    rethrow_with_text(concat("shard ", shard, ", sample ", sample, ": "));
  }

  const std::shared_ptr<const IterableDataset> dataset_;
  const SampleSpec spec_;
  const IterableLoaderOptions options_;
  const bool pinned_;
  const int64_t epoch_;
  std::vector<Shard> shards_;
};

/// The batches of one pass that hold samples.
class ShardSource final : public BatchSource<Batch> {
 public:
  using Places = std::vector<std::shared_ptr<Batch>>;

  ShardSource(EpochSpec spec, std::shared_ptr<WorkerThreads> threads,
              std::shared_ptr<Places> places, int64_t shards)
      : run_(std::move(spec), std::move(threads)), places_(std::move(places)), shards_(shards) {}

  std::shared_ptr<Batch> next() override {
    while (empty_ < shards_) {
      std::shared_ptr<Batch> batch;
      run_.next([&](int64_t place) { batch = std::move((*places_)[static_cast<size_t>(place)]); });
      if (batch == nullptr) return nullptr;  // after an error
      if (batch->size() > 0) {
        empty_ = 0;
        return batch;
      }
      ++empty_;
    }
    return nullptr;
  }

 private:
  EpochRun run_;
  std::shared_ptr<Places> places_;
  int64_t shards_;
  int64_t empty_ = 0;  // batches without samples in a row; as many as shards: all have ended
};

}  // namespace

IterableLoader::IterableLoader(const IterableDataset& dataset, IterableLoaderOptions options)
    : IterableLoader(std::shared_ptr<const IterableDataset>(std::shared_ptr<void>(), &dataset),
                     std::move(options)) {}

IterableLoader::IterableLoader(std::shared_ptr<const IterableDataset> dataset,
                               IterableLoaderOptions options)
    : dataset_(std::move(dataset)), options_(std::move(options)) {
  LATHE_CHECK(ValueError, dataset_ != nullptr, "IterableLoader: the data set is null");
  // LoaderCore checks the options that both loaders have and resolves the number of workers.
  const LoaderCore core(1, {.batch_size = options_.batch_size,
                            .num_workers = options_.num_workers,
                            .pin_memory = options_.pin_memory,
                            .prefetch_factor = options_.prefetch_factor,
                            .timeout = options_.timeout});
  options_.num_workers = core.options().num_workers;
  LATHE_CHECK(ValueError, dataset_->shards() >= 1,
              "IterableLoader: the data set must have at least 1 shard, got ", dataset_->shards());
}

void IterableLoader::set_epoch(int64_t epoch, int64_t first_batch) {
  LATHE_CHECK(ValueError, epoch >= 0 && first_batch >= 0, "IterableLoader: set_epoch(", epoch, ", ",
              first_batch, ") needs numbers that are not negative");
  epoch_ = epoch;
  first_batch_ = first_batch;
}

IterableLoader::Iterator IterableLoader::begin() {
  const auto shards = std::make_shared<Shards>(dataset_, options_, epoch_++);
  const int64_t skipped = std::exchange(first_batch_, 0);
  std::shared_ptr<WorkerThreads> threads;
  if (options_.num_workers > 0) {
    threads = std::make_shared<WorkerThreads>(options_.num_workers, options_.worker_init_fn);
    threads->acquire();
  }
  const auto places = std::make_shared<ShardSource::Places>();
  EpochSpec spec{
      .read =
          [shards, places](int64_t job, int64_t place, FunctionRef<bool()> stop) {
            auto& mine = (*places)[static_cast<size_t>(place)];
            mine = shards->read(job, stop);
            return mine != nullptr;
          },
      .batches = std::numeric_limits<int64_t>::max(),
      .first_batch = 0,
      .capacity = options_.num_workers * options_.prefetch_factor,
      .timeout = options_.timeout,
      .describe = [shards](int64_t job) { return concat("of shard ", job % shards->count()); }};
  places->resize(static_cast<size_t>(spec.places()));
  Iterator it(
      std::make_shared<ShardSource>(std::move(spec), std::move(threads), places, shards->count()));
  for (int64_t k = 0; k < skipped; ++k) ++it;
  return it;
}

}  // namespace lathe::data
