// PassCore and LoaderCore: checks of the options, the batches of an epoch, positions, statistics.
#include "lathe/data/loader_core.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "lathe/core/ceil_div.h"
#include "lathe/core/device.h"
#include "lathe/core/error.h"
#include "lathe/core/log.h"
#include "lathe/core/seconds_since.h"
#include "lathe/core/state_entries.h"
#include "lathe/core/thread_pool.h"
#include "lathe/data/epoch_run.h"
#include "lathe/data/worker_threads.h"

namespace lathe::data {
namespace {

constexpr int64_t kMostWorkers = 1024, kMostAutoWorkers = 16;

/// The batches of one epoch: batch b is order[begins[b] … begins[b + 1]).
struct BatchedOrder {
  std::vector<int64_t> order;
  std::vector<int64_t> begins = {0};

  std::span<const int64_t> batch(int64_t b) const {
    const auto at = static_cast<size_t>(b);
    return std::span(order).subspan(static_cast<size_t>(begins[at]),
                                    static_cast<size_t>(begins[at + 1] - begins[at]));
  }
};

std::shared_ptr<const Sampler> sampler_for(int64_t samples, const DataLoaderOptions& options) {
  if (options.sampler) return options.sampler;
  if (options.shuffle) return std::make_shared<RandomSampler>(samples);
  return std::make_shared<SequentialSampler>(samples);
}

void check_options(const DataLoaderOptions& options) {
  LATHE_CHECK(ValueError, options.batch_size >= 1, "DataLoader: batch_size must be positive, got ",
              options.batch_size);
  LATHE_CHECK(ValueError, options.num_workers >= 0 || options.num_workers == kAutoWorkers,
              "DataLoader: num_workers must not be negative, got ", options.num_workers);
  LATHE_CHECK(ValueError, options.num_workers <= kMostWorkers, "DataLoader: ", options.num_workers,
              " workers are more than ", kMostWorkers);
  LATHE_CHECK(ValueError, options.prefetch_factor >= 1 && options.prefetch_factor <= 1024,
              "DataLoader: prefetch_factor must be 1 to 1024, got ", options.prefetch_factor);
  LATHE_CHECK(ValueError, options.timeout >= 0, "DataLoader: timeout must not be negative, got ",
              options.timeout);
  LATHE_CHECK(ValueError, !(options.shuffle && options.sampler),
              "DataLoader: give either shuffle or a sampler, not both");
  LATHE_CHECK(ValueError,
              !options.batch_sampler || (options.batch_size == 1 && !options.shuffle &&
                                         !options.sampler && !options.drop_last),
              "DataLoader: a batch_sampler takes the place of batch_size, shuffle, sampler and "
              "drop_last; do not give both");
}

void check_index(int64_t index, int64_t samples) {
  LATHE_CHECK(IndexError, index >= 0 && index < samples, "DataLoader: the sampler gave index ",
              index, " of a data set of ", samples, " samples");
}

/// Samplers may be the user's own, so their indices are checked.
BatchedOrder order_of(const DataLoaderOptions& options, int64_t samples, int64_t epoch) {
  BatchedOrder out;
  if (options.batch_sampler) {
    for (const auto& batch : options.batch_sampler->batches(options.seed, epoch)) {
      LATHE_CHECK(ValueError, !batch.empty(), "DataLoader: batch ", out.begins.size() - 1,
                  " of the batch sampler is empty");
      for (const int64_t i : batch) check_index(i, samples);
      out.order.insert(out.order.end(), batch.begin(), batch.end());
      out.begins.push_back(static_cast<int64_t>(out.order.size()));
    }
    return out;
  }
  out.order = options.sampler->order(options.seed, epoch);
  const auto count = static_cast<int64_t>(out.order.size());
  LATHE_CHECK(ValueError, count == options.sampler->size(), "DataLoader: the sampler gave ", count,
              " indices, but its size() is ", options.sampler->size());
  for (const int64_t i : out.order) check_index(i, samples);
  for (int64_t end = options.batch_size; end <= count; end += options.batch_size)
    out.begins.push_back(end);
  if (out.begins.back() < count && !options.drop_last) out.begins.push_back(count);
  return out;
}

/// "samples 4, 9, 2, …"
std::string describe(std::span<const int64_t> indices) {
  constexpr size_t kShown = 4;
  std::string text = indices.size() == 1 ? "sample" : "samples";
  for (size_t k = 0; k < std::min(indices.size(), kShown); ++k)
    text += concat(k == 0 ? " " : ", ", indices[k]);
  return indices.size() > kShown ? text + ", …" : text;
}

}  // namespace

PassCore::PassCore(std::shared_ptr<EpochRun> run, std::shared_ptr<Position> position,
                   std::shared_ptr<LoaderStats> stats)
    : run_(std::move(run)),
      epoch_(position->epoch),
      position_(std::move(position)),
      stats_(std::move(stats)) {}

void PassCore::take(FunctionRef<void(int64_t place)> take) {
  const auto began = std::chrono::steady_clock::now();
  const auto ready = static_cast<double>(run_->waiting());
  if (!run_->next(take)) return;
  ++stats_->batches;
  stats_->wait_seconds += seconds_since(began);
  stats_->mean_ready += (ready - stats_->mean_ready) / static_cast<double>(stats_->batches);
}

bool PassCore::ready() const { return run_->ready(); }

void PassCore::hand_out(bool is_batch) {
  if (is_batch) {
    ++position_->batch;
  } else if (!run_->failed()) {
    *position_ = {epoch_ + 1, 0};
  }
}

LoaderCore::LoaderCore(int64_t samples, DataLoaderOptions options)
    : samples_(samples),
      options_(std::move(options)),
      position_(std::make_shared<const PassCore::Position>()),
      stats_(std::make_shared<LoaderStats>()) {
  check_options(options_);
  if (options_.pin_memory && !cuda_is_available())
    warn_once("DataLoader.pin_memory",
              "DataLoader: pin_memory is ignored: there is no GPU to copy to");
  if (samples == 0) warn("DataLoader: the data set is empty, so an epoch has no batches");
  if (options_.num_workers == kAutoWorkers)
    options_.num_workers = std::clamp<int64_t>(usable_cpus() - 1, 1, kMostAutoWorkers);
  if (!options_.batch_sampler) options_.sampler = sampler_for(samples, options_);
}

int64_t LoaderCore::size() const {
  if (options_.batch_sampler) return options_.batch_sampler->size();
  const int64_t samples = options_.sampler->size();
  return options_.drop_last ? samples / options_.batch_size
                            : ceil_div(samples, options_.batch_size);
}

void LoaderCore::set_epoch(int64_t epoch, int64_t first_batch) {
  LATHE_CHECK(ValueError, epoch >= 0 && first_batch >= 0, "DataLoader: set_epoch(", epoch, ", ",
              first_batch, ") needs numbers that are not negative");
  position_ = std::make_shared<const PassCore::Position>(epoch, first_batch);
  epoch_ = epoch;
  first_batch_ = first_batch;
}

StateDict LoaderCore::state_dict() const {
  StateDict state;
  state.add_number("epoch", position_->epoch);
  state.add_number("batch", position_->batch);
  state.add_number("seed", static_cast<int64_t>(options_.seed));
  return state;
}

void LoaderCore::load_state_dict(const StateDict& state) {
  check_entries("DataLoader", state, state_dict());
  const int64_t epoch = state.count("epoch"), batch = state.count("batch");
  const auto seed = state.number<int64_t>("seed");
  set_epoch(epoch, batch);
  options_.seed = static_cast<uint64_t>(seed);
}

std::shared_ptr<WorkerThreads> LoaderCore::threads_for(int64_t workers) {
  if (workers == 0) return nullptr;
  if (threads_ && threads_->asked() == workers && threads_->acquire()) return threads_;
  auto threads = std::make_shared<WorkerThreads>(workers, options_.worker_init_fn);
  threads->acquire();
  if (options_.persistent_workers) threads_ = threads;
  return threads;
}

size_t LoaderCore::most_ahead(int64_t workers) const {
  return static_cast<size_t>(std::max<int64_t>(workers * options_.prefetch_factor, 1));
}

PassCore LoaderCore::begin_core(ReadPlace read, int64_t workers) {
  auto order = std::make_shared<const BatchedOrder>(order_of(options_, samples_, epoch_));
  const auto batches = static_cast<int64_t>(order->begins.size()) - 1;
  const int64_t left = std::max<int64_t>(batches - first_batch_, 0);
  if (!options_.persistent_workers) workers = std::min(workers, left);
  EpochSpec spec{
      .read =
          [order, read = std::move(read), seed = options_.seed, epoch = epoch_,
           asked = options_.stop](int64_t job, int64_t place, FunctionRef<bool()> ended) {
            const auto stop = [&] { return ended() || (asked && asked()); };
            return read(order->batch(job), seed, epoch, place, stop);
          },
      .batches = batches,
      .first_batch = first_batch_,
      .capacity = std::min(workers * options_.prefetch_factor, left),
      .timeout = options_.timeout,
      .describe = [order](int64_t job) { return describe(order->batch(job)); }};
  auto run = std::make_shared<EpochRun>(std::move(spec), left > 0 ? threads_for(workers) : nullptr);
  const auto position = std::make_shared<PassCore::Position>(epoch_, first_batch_);
  position_ = position;
  ++epoch_;
  first_batch_ = 0;
  return PassCore(std::move(run), position, stats_);
}

}  // namespace lathe::data
