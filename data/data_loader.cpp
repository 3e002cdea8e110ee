#include "lathe/data/data_loader.h"

#include <algorithm>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/log.h"
#include "lathe/data/epoch_run.h"

namespace lathe::data {
namespace {

std::shared_ptr<const Sampler> sampler_for(const Dataset& dataset,
                                           const DataLoaderOptions& options) {
  LATHE_CHECK(ValueError, !(options.shuffle && options.sampler),
              "DataLoader: give either shuffle or a sampler, not both");
  if (options.sampler) return options.sampler;
  if (options.shuffle) return std::make_shared<RandomSampler>(dataset.size());
  return std::make_shared<SequentialSampler>(dataset.size());
}

void check_options(const DataLoaderOptions& options) {
  LATHE_CHECK(ValueError, options.batch_size >= 1, "DataLoader: batch_size must be positive, got ",
              options.batch_size);
  LATHE_CHECK(ValueError, options.num_workers >= 0,
              "DataLoader: num_workers must not be negative, got ", options.num_workers);
  LATHE_CHECK(ValueError, options.num_workers <= 1024, "DataLoader: ", options.num_workers,
              " workers are more than 1024");
  LATHE_CHECK(ValueError, options.prefetch_factor >= 1 && options.prefetch_factor <= 1024,
              "DataLoader: prefetch_factor must be 1 to 1024, got ", options.prefetch_factor);
}

/// The order of an epoch; a sampler may be the user's.
std::vector<int64_t> checked_order(const Sampler& sampler, const Dataset& dataset, uint64_t seed,
                                   int64_t epoch) {
  std::vector<int64_t> order = sampler.order(seed, epoch);
  const int64_t size = dataset.size();
  LATHE_CHECK(ValueError, static_cast<int64_t>(order.size()) == sampler.size(),
              "DataLoader: the sampler gave ", order.size(), " indices, but its size() is ",
              sampler.size());
  for (const int64_t i : order)
    LATHE_CHECK(IndexError, i >= 0 && i < size, "DataLoader: the sampler gave index ", i,
                " of a data set of ", size, " samples");
  return order;
}

}  // namespace

DataLoader::DataLoader(const Dataset& dataset, DataLoaderOptions options)
    : DataLoader(std::shared_ptr<const Dataset>(std::shared_ptr<void>(), &dataset),
                 std::move(options)) {}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options)
    : dataset_(std::move(dataset)),
      options_(std::move(options)),
      position_(std::make_shared<const Position>()) {
  check_options(options_);
  if (options_.pin_memory && !cuda_is_available())
    warn_once("DataLoader.pin_memory",
              "DataLoader: pin_memory is ignored: there is no GPU to copy to");
  options_.sampler = sampler_for(*dataset_, options_);
}

int64_t DataLoader::size() const {
  const int64_t samples = options_.sampler->size();
  return options_.drop_last ? samples / options_.batch_size
                            : (samples + options_.batch_size - 1) / options_.batch_size;
}

void DataLoader::set_epoch(int64_t epoch, int64_t first_batch) {
  LATHE_CHECK(ValueError, epoch >= 0 && first_batch >= 0, "DataLoader: set_epoch(", epoch, ", ",
              first_batch, ") needs numbers that are not negative");
  position_ = std::make_shared<const Position>(epoch, first_batch);
  epoch_ = epoch;
  first_batch_ = first_batch;
}

StateDict DataLoader::state_dict() const {
  StateDict state;
  state.add_number("epoch", position_->epoch);
  state.add_number("batch", position_->batch);
  state.add_number("seed", static_cast<int64_t>(options_.seed));
  return state;
}

void DataLoader::load_state_dict(const StateDict& state) {
  const auto epoch = state.number<int64_t>("epoch"), batch = state.number<int64_t>("batch");
  const auto seed = state.number<int64_t>("seed");
  set_epoch(epoch, batch);
  options_.seed = static_cast<uint64_t>(seed);
}

DataLoader::Iterator DataLoader::begin() {
  const int64_t batches = size(), left = std::max<int64_t>(batches - first_batch_, 0);
  EpochPlan plan{.dataset = dataset_,
                 .spec = dataset_->spec(),
                 .order = checked_order(*options_.sampler, *dataset_, options_.seed, epoch_),
                 .batch_size = options_.batch_size,
                 .batches = batches,
                 .first_batch = first_batch_,
                 .seed = options_.seed,
                 .epoch = epoch_,
                 .workers = std::min(options_.num_workers, left),
                 .capacity = std::min(options_.num_workers * options_.prefetch_factor, left)};
  const auto position = std::make_shared<Position>(epoch_, first_batch_);
  position_ = position;
  ++epoch_;
  first_batch_ = 0;
  return Iterator(std::make_shared<EpochRun>(std::move(plan)), position);
}

DataLoader::Iterator::Iterator(std::shared_ptr<EpochRun> run, std::shared_ptr<Position> position)
    : run_(std::move(run)), batch_(std::make_shared<Batch>()), position_(std::move(position)) {
  ++*this;
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  if (run_ == nullptr) return *this;
  const std::shared_ptr<EpochRun> run =
      std::exchange(run_, nullptr);  // at the end, should next() throw
  if (run->next(*batch_)) {
    run_ = run;
    ++position_->batch;
  } else {
    *position_ = {position_->epoch + 1, 0};
  }
  return *this;
}

DeviceBatches prefetch(DataLoader& loader, Device device) { return DeviceBatches(loader, device); }

DeviceBatches::Iterator::Iterator(DataLoader::Iterator host, Device device)
    : host_(std::move(host)), device_(device), batch_(std::make_shared<Batch>()) {
  copy();
}

DeviceBatches::Iterator& DeviceBatches::Iterator::operator++() {
  ++host_;
  copy();
  return *this;
}

void DeviceBatches::Iterator::copy() {
  if (host_ == std::default_sentinel) return;
  *batch_ = device_.is_cpu() ? std::move(*host_) : host_->to(device_);
}

}  // namespace lathe::data
