#include "lathe/data/iterable_loader.h"

#include <doctest/doctest.h>

#include <atomic>
#include <set>
#include <thread>

#include "files.h"
#include "lathe/core/error.h"

namespace lathe::data {
namespace {

using testing::message_of;

/// Shard s holds the numbers 100 s, 100 s + 1, …, as many as `sizes` says.
struct Streams : IterableDataset {
  explicit Streams(std::vector<int64_t> s) : sizes(std::move(s)) {}
  SampleSpec spec() const override { return {{{"x", {}, kI64}, {"epoch", {}, kI64}}}; }
  int64_t shards() const override { return static_cast<int64_t>(sizes.size()); }
  std::unique_ptr<SampleStream> open(int64_t shard, uint64_t seed, int64_t epoch) const override {
    struct Stream : SampleStream {
      bool next(Slot out) override {
        if (at == size) return false;
        if (first + at == throws_at) throw std::runtime_error("torn");
        out.set<int64_t>(0, first + at++);
        out.set<int64_t>(1, epoch);
        return true;
      }
      int64_t first = 0, size = 0, at = 0, epoch = 0, throws_at = -1;
    };
    ++opened;
    CHECK(seed == 5);
    auto stream = std::make_unique<Stream>();
    stream->first = 100 * shard;
    stream->size = sizes[static_cast<size_t>(shard)];
    stream->epoch = epoch;
    stream->throws_at = throws_at;
    return stream;
  }
  std::vector<int64_t> sizes;
  int64_t throws_at = -1;
  mutable std::atomic<int> opened = 0;
};

using Epoch = std::vector<std::vector<int64_t>>;

Epoch read_epoch(IterableLoader& loader) {
  Epoch seen;
  for (auto& [x, y] : loader) {
    seen.push_back(x.to_vector<int64_t>());
    CHECK(y.numel() == x.numel());
  }
  return seen;
}

TEST_CASE("iterable loader: batches go around the shards, whatever the number of workers") {
  const Streams set({5, 0, 2, 7});
  const Epoch whole = {{0, 1}, {200, 201}, {300, 301}, {2, 3}, {302, 303}, {4}, {304, 305}, {306}};
  const Epoch full = {{0, 1}, {200, 201}, {300, 301}, {2, 3}, {302, 303}, {304, 305}};
  for (const int64_t workers : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{8}, kAutoWorkers})
    for (const int64_t prefetch : {1, 4}) {
      CAPTURE(workers);
      CAPTURE(prefetch);
      const IterableLoaderOptions options{
          .batch_size = 2, .num_workers = workers, .seed = 5, .prefetch_factor = prefetch};
      IterableLoader loader(set, options);
      CHECK(read_epoch(loader) == whole);
      CHECK(read_epoch(loader) == whole);
      CHECK(loader.epoch() == 2);
      IterableLoaderOptions dropping = options;
      dropping.drop_last = true;
      IterableLoader shorter(set, dropping);
      CHECK(read_epoch(shorter) == full);
    }
}

TEST_CASE("iterable loader: epochs are numbered, samples too, and one may begin in the middle") {
  const Streams set({4, 3});
  IterableLoader loader(set, {.batch_size = 2, .num_workers = 1, .seed = 5});
  read_epoch(loader);
  auto it = loader.begin();
  CHECK(it->y.to_vector<int64_t>() == std::vector<int64_t>{1, 1});
  CHECK(it->indices == std::vector<int64_t>{0, 1});
  ++it;
  ++it;
  CHECK(it->indices == std::vector<int64_t>{2, 3});
  loader.set_epoch(7, 2);
  it = loader.begin();
  CHECK(it->x.to_vector<int64_t>() == std::vector<int64_t>{2, 3});
  CHECK(it->y.to_vector<int64_t>() == std::vector<int64_t>{7, 7});
  loader.set_epoch(0, 100);
  CHECK(loader.begin() == loader.end());
  CHECK_THROWS_AS(loader.set_epoch(-1), ValueError);
}

TEST_CASE("iterable loader: an error names shard and sample, and the loader can be used again") {
  for (const int64_t workers : {0, 1, 4}) {
    Streams set({3, 8});
    set.throws_at = 105;
    IterableLoader loader(set, {.batch_size = 2, .num_workers = workers, .seed = 5});
    int64_t batches = 0;
    CHECK(message_of<DataError>([&] {
            for (auto& batch : loader) batches += batch.size() > 0;
          }) == "shard 1, sample 5: torn");
    CHECK(batches == 4);  // {0 1} {100 101} {2} {102 103}
    set.throws_at = -1;
    CHECK(read_epoch(loader).size() == 6);
  }
}

TEST_CASE("iterable loader: abandoned at any moment, in any state") {
  const Streams set({50, 1, 50});
  IterableLoader loader(set, {.batch_size = 3, .num_workers = 3, .seed = 5});
  for (int round = 0; round < 300; ++round) {
    auto it = loader.begin();
    for (int k = 0; k < round % 7; ++k) ++it;
  }
  CHECK(set.opened > 300);
}

TEST_CASE("iterable loader: options and data sets that do not fit are refused") {
  const Streams none({}), set({1});
  CHECK(message_of<ValueError>([&] { IterableLoader{none}; }) ==
        "IterableLoader: the data set must have at least 1 shard, got 0");
  CHECK(message_of<ValueError>([] { IterableLoader{std::shared_ptr<const IterableDataset>()}; }) ==
        "IterableLoader: the data set is null");
  struct NoStream final : IterableDataset {
    int64_t shards() const override { return 1; }
    SampleSpec spec() const override { return {{{"x", {}, kI64}}}; }
    std::unique_ptr<SampleStream> open(int64_t, uint64_t, int64_t) const override { return {}; }
  } closed;
  IterableLoader of_closed(closed, {.batch_size = 1});
  CHECK(message_of<DataError>([&] { of_closed.begin(); }) ==
        "shard 0, sample 0: the data set's open() returned null");
  CHECK_THROWS_AS(IterableLoader(set, {.batch_size = 0}), ValueError);
  CHECK_THROWS_AS(IterableLoader(set, {.num_workers = -1}), ValueError);
  CHECK_THROWS_AS(IterableLoader(set, {.prefetch_factor = 0}), ValueError);
}

}  // namespace
}  // namespace lathe::data
