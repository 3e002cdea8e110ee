// A loader whose batches have a type of the user's own: texts of different lengths, graphs, point
// clouds. If all samples have the same shape, use DataLoader: it writes them straight into the
// batch.
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "lathe/data/batch.h"
#include "lathe/data/loader_core.h"
#include "lathe/data/random.h"

namespace lathe::data {

/// Like DataLoader, with batches of any type.
template <class Batch>
class CollateLoader {
 public:
  using Iterator = BatchIterator<Batch>;

  /// `read` makes a batch. collate_loader() makes `read` from two functions.
  CollateLoader(int64_t samples, ReadBatch<Batch> read, DataLoaderOptions options)
      : core_(samples, std::move(options)), read_(std::move(read)) {}

  Iterator begin() { return Iterator(std::make_shared<Pass<Batch>>(core_.begin(read_))); }
  std::default_sentinel_t end() const { return std::default_sentinel; }
  int64_t size() const { return core_.size(); }
  int64_t epoch() const { return core_.epoch(); }
  void set_epoch(int64_t epoch, int64_t first_batch = 0) { core_.set_epoch(epoch, first_batch); }
  StateDict state_dict() const { return core_.state_dict(); }
  void load_state_dict(const StateDict& state) { core_.load_state_dict(state); }
  LoaderStats stats() const { return core_.stats(); }

 private:
  LoaderCore core_;
  ReadBatch<Batch> read_;
};

/// Makes a loader whose batches are `collate(samples)`. The samples are `get(i)` or `get(i, key)`,
/// 0 <= i < size. Several worker threads call both functions at the same time. pin_memory has no
/// effect.
///
///   auto loader = collate_loader(texts.size(), [&](int64_t i) { return texts[i]; },
///                                [](std::vector<std::string> some) { return padded(some); },
///                                {.batch_size = 32, .num_workers = 4});
///   for (auto& batch : loader) …
///
/// If `get` throws, the loader throws an error with the same message and the sample's index.
template <class Get, class Collate>
auto collate_loader(int64_t size, Get get, Collate collate, DataLoaderOptions options = {}) {
  const auto sample = [get = std::move(get)](int64_t i, Key key) {
    if constexpr (std::is_invocable_v<const Get&, int64_t, Key>) {
      return get(i, key);
    } else {
      return get(i);
    }
  };
  using Sample = std::invoke_result_t<decltype(sample), int64_t, Key>;
  using Result = std::invoke_result_t<const Collate&, std::vector<Sample>>;
  ReadBatch<Result> read = [sample, collate = std::move(collate)](
                               std::span<const int64_t> indices, uint64_t seed, int64_t epoch,
                               FunctionRef<bool()> stop) -> std::shared_ptr<Result> {
    std::vector<Sample> samples;
    samples.reserve(indices.size());
    for (const int64_t i : indices) {
      if (stop()) return nullptr;
      try {
        samples.push_back(sample(i, Key{seed, epoch, i}));
      } catch (...) {
        rethrow_with_index(i);
      }
    }
    return std::make_shared<Result>(collate(std::move(samples)));
  };
  return CollateLoader<Result>(size, std::move(read), std::move(options));
}

}  // namespace lathe::data
