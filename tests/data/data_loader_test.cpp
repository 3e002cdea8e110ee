#include "lathe/data/data_loader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <new>
#include <numeric>
#include <set>
#include <thread>

#include "files.h"
#include "lathe/core/log.h"
#include "lathe/data/dataset_parts.h"
#include "lathe/data/device/device_batches.h"
#include "lathe/data/images/image_datasets.h"

namespace lathe::data {
namespace {

using testing::message_of;

Synthetic augmented_images(int64_t size) {
  return Synthetic({.size = size, .height = 16, .width = 16},
                   compose(pad_crop(16, 4), hflip(), normalize({.5, .5, .5}, {.25, .25, .25})));
}

/// Samples that know how often they are read, and misbehave when told.
struct Probe : Dataset {
  explicit Probe(int64_t size) : n(size) {}
  int64_t size() const override { return n; }
  SampleSpec spec() const override { return {{{"x", {}, kI64}}}; }
  void read(int64_t i, Key, Slot out) const override {
    ++reads;
    if (i == slow_at) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (i == throws_at) throw std::runtime_error("bad sample");
    out.set<int64_t>(0, i);
  }
  int64_t n, throws_at = -1, slow_at = -1;
  mutable std::atomic<int> reads = 0;
};

std::vector<int64_t> indices_of_epoch(DataLoader& loader) {
  std::vector<int64_t> all;
  for (auto& batch : loader) all.insert(all.end(), batch.indices.begin(), batch.indices.end());
  return all;
}

TEST_CASE("loader: batches come in order, and the last one is short unless it is dropped") {
  const Probe set(10);
  for (const int64_t workers : {0, 1, 3}) {
    std::vector<int64_t> sizes, seen;
    DataLoader loader(set, {.batch_size = 4, .num_workers = workers});
    CHECK(loader.size() == 3);
    for (auto& batch : loader) {
      sizes.push_back(batch.x.dim(0));
      for (const int64_t value : batch.x.to_vector<int64_t>()) seen.push_back(value);
      CHECK(!batch.y.defined());
    }
    CHECK(sizes == std::vector<int64_t>{4, 4, 2});
    CHECK(seen == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    DataLoader dropping(set, {.batch_size = 4, .num_workers = workers, .drop_last = true});
    CHECK(dropping.size() == 2);
    CHECK(indices_of_epoch(dropping).size() == 8);
  }
}

TEST_CASE("loader: a slow sample does not change the order") {
  Probe set(40);
  set.slow_at = 5;
  DataLoader loader(set, {.batch_size = 2, .num_workers = 4});
  std::vector<int64_t> expected(40);
  std::iota(expected.begin(), expected.end(), int64_t{0});
  CHECK(indices_of_epoch(loader) == expected);
}

TEST_CASE("loader: each begin is the next epoch; set_epoch goes to one, also into its middle") {
  const Probe set(20);
  const DataLoaderOptions options{.batch_size = 3, .shuffle = true, .num_workers = 2, .seed = 1};
  DataLoader loader(set, options);
  const auto epoch0 = indices_of_epoch(loader), epoch1 = indices_of_epoch(loader);
  CHECK(epoch0 != epoch1);
  CHECK(loader.epoch() == 2);
  DataLoader again(set, options);
  again.set_epoch(1);
  CHECK(indices_of_epoch(again) == epoch1);
  again.set_epoch(1, 4);  // as after an interruption in epoch 1, batch 4
  CHECK(indices_of_epoch(again) == std::vector<int64_t>(epoch1.begin() + 12, epoch1.end()));
  again.set_epoch(0, 7);
  CHECK(indices_of_epoch(again).empty());
  CHECK(indices_of_epoch(again) == epoch1);
}

TEST_CASE("loader: an error at any index reaches the caller at its batch, with index and text") {
  for (const int64_t workers : {0, 1, 4}) {
    for (int64_t bad = 0; bad < 64; ++bad) {
      CAPTURE(workers);
      CAPTURE(bad);
      Probe set(64);
      set.throws_at = bad;
      DataLoader loader(set, {.batch_size = 5, .num_workers = workers});
      int64_t batches = 0;
      const std::string text = message_of<DataError>([&] {
        for (auto& batch : loader) {
          CHECK(batch.indices[0] == 5 * batches);
          ++batches;
        }
      });
      CHECK(text == "sample " + std::to_string(bad) + ": bad sample");
      CHECK(batches == bad / 5);
      set.throws_at = -1;  // the loader can be used again
      CHECK(indices_of_epoch(loader).size() == 64);
    }
  }
}

TEST_CASE("loader: after an error the iterator is at its end") {
  Probe set(10);
  set.throws_at = 4;
  DataLoader loader(set, {.batch_size = 2, .num_workers = 2});
  auto it = loader.begin();
  ++it;
  CHECK_THROWS_AS(++it, DataError);
  CHECK(it == loader.end());
  ++it;
  CHECK(it == loader.end());
}

struct Thrower : Dataset {
  int64_t size() const override { return 5; }
  SampleSpec spec() const override { return {{{"x", {}, kI64}}}; }
  void read(int64_t i, Key, Slot) const override {
    switch (i) {
      case 0: throw 42;  // no std::exception
      case 1: throw std::bad_alloc();
      case 2: throw FileError("disk.bin: gone");
      case 3: throw OutOfMemoryError("host: no memory");
      default: throw ShapeError("conv2d: bad shape");
    }
  }
};

template <class E>
std::string first_error(int64_t index, int64_t workers) {
  const Thrower set;
  const Subset part(set, {index});
  DataLoader loader(part, {.num_workers = workers});
  return message_of<E>([&] { loader.begin(); });
}

TEST_CASE("loader: every kind of exception arrives as a lathe error that says what it was") {
  for (const int64_t workers : {0, 2}) {
    CHECK(first_error<DataError>(0, workers) ==
          "sample 0: an exception that is not a std::exception");
    CHECK(first_error<OutOfMemoryError>(1, workers) == "sample 0: out of memory");
    CHECK(first_error<FileError>(2, workers) == "sample 0: disk.bin: gone");
    CHECK(first_error<OutOfMemoryError>(3, workers) == "sample 0: host: no memory");
    CHECK(first_error<DataError>(4, workers) == "sample 0: conv2d: bad shape");
  }
  const Thrower set;
  DataLoader loader(set, {.num_workers = 1});
  try {
    loader.begin();
    FAIL("no exception");
  } catch (const DataError& error) {
    CHECK_THROWS_AS(std::rethrow_if_nested(error), int);  // the original is inside
  }
}

TEST_CASE("loader: iterators may be abandoned at any moment") {
  const Probe set(200);
  DataLoader loader(set, {.batch_size = 2, .num_workers = 3});
  for (int round = 0; round < 1000; ++round) {
    auto it = loader.begin();
    for (int k = 0; k < round % 5; ++k) ++it;
    if (round % 7 == 0) auto copy = it;
  }
  CHECK(indices_of_epoch(loader).size() == 200);
}

TEST_CASE("loader: an abandoned iterator reads no more than was asked for ahead of it") {
  const Probe set(1'000'000);
  DataLoader loader(set, {.batch_size = 10, .num_workers = 2, .prefetch_factor = 3});
  for (int round = 0; round < 20; ++round) loader.begin();
  CHECK(set.reads >= 20 * 10);
  CHECK(set.reads <= 20 * 10 * (1 + 2 * 3));  // the one in use, and six ahead
}

TEST_CASE("loader: no more than workers x prefetch batches are read ahead") {
  const Probe set(1000);
  DataLoader loader(set, {.batch_size = 10, .num_workers = 2, .prefetch_factor = 3});
  auto it = loader.begin();
  const int ahead = 10 * (1 + 2 * 3);  // the one in use, and six ahead
  while (set.reads < ahead) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(set.reads == ahead);
}

TEST_CASE("loader: two iterators of one loader run side by side, and one may outlive the loader") {
  const auto set = std::make_shared<Probe>(30);
  auto loader = std::make_unique<DataLoader>(
      set, DataLoaderOptions{.batch_size = 3, .shuffle = true, .num_workers = 2});
  auto a = loader->begin(), b = loader->begin();
  CHECK(a->indices != b->indices);
  loader.reset();
  int64_t count = 0;
  for (; a != std::default_sentinel; ++a) count += a->size();
  CHECK(count == 30);
}

TEST_CASE("loader: its state is the position of the iterator that began last") {
  const Probe set(30);
  DataLoader loader(set, {.batch_size = 3});
  const auto position = [&] {
    const StateDict state = loader.state_dict();
    return std::pair(state.number<int64_t>("epoch"), state.number<int64_t>("batch"));
  };
  auto a = loader.begin();
  ++a;
  CHECK(position() == std::pair<int64_t, int64_t>(0, 2));
  auto b = loader.begin();
  CHECK(position() == std::pair<int64_t, int64_t>(1, 1));
  for (; a != std::default_sentinel; ++a) CHECK(position() == std::pair<int64_t, int64_t>(1, 1));
  ++b;
  CHECK(position() == std::pair<int64_t, int64_t>(1, 2));
  loader.set_epoch(7, 4);
  ++b;
  CHECK(position() == std::pair<int64_t, int64_t>(7, 4));
  const auto c = loader.begin();
  CHECK(c->indices.front() == 12);
  CHECK(position() == std::pair<int64_t, int64_t>(7, 5));
}

TEST_CASE("loader: empty data sets give no batch") {
  const Probe set(0);
  for (const bool shuffle : {false, true})
    for (const int64_t workers : {0, 2}) {
      DataLoader loader(set, {.shuffle = shuffle, .num_workers = workers});
      CHECK(loader.size() == 0);
      CHECK(indices_of_epoch(loader).empty());
    }
}

struct BadSampler : Sampler {
  int64_t size() const override { return 2; }
  std::vector<int64_t> order(uint64_t, int64_t epoch) const override {
    return epoch == 0 ? std::vector<int64_t>{0, 10} : std::vector<int64_t>{0, 1, 2};
  }
};

TEST_CASE("loader: options and samplers that do not fit are refused") {
  const Probe set(10);
  const auto refused = [&](DataLoaderOptions options) {
    return message_of<ValueError>([&] { DataLoader(set, options); });
  };
  CHECK(message_of<ValueError>([] { DataLoader{std::shared_ptr<const Dataset>()}; }) ==
        "DataLoader: the data set is null");
  CHECK(refused({.batch_size = 0}) == "DataLoader: batch_size must be positive, got 0");
  CHECK(refused({.num_workers = -1}) == "DataLoader: num_workers must not be negative, got -1");
  CHECK(refused({.num_workers = 5000}) == "DataLoader: 5000 workers are more than 1024");
  CHECK(refused({.prefetch_factor = 0}) == "DataLoader: prefetch_factor must be 1 to 1024, got 0");
  CHECK(refused({.shuffle = true, .sampler = std::make_shared<SequentialSampler>(3)}) ==
        "DataLoader: give either shuffle or a sampler, not both");
  DataLoader loader(set, {.sampler = std::make_shared<BadSampler>()});
  CHECK(message_of<IndexError>([&] { loader.begin(); }) ==
        "DataLoader: the sampler gave index 10 of a data set of 10 samples");
  loader.set_epoch(1);
  CHECK(message_of<ValueError>([&] { loader.begin(); }) ==
        "DataLoader: the sampler gave 3 indices, but its size() is 2");
  CHECK_THROWS_AS(loader.set_epoch(-1), ValueError);
}

TEST_CASE("loader: pin_memory without a GPU is ignored and said once") {
  if (cuda_is_available()) return;
  const Probe set(4);
  std::vector<std::string> said;
  const LogHandler before =
      set_log_handler([&](LogLevel, std::string_view text) { said.emplace_back(text); });
  for (int k = 0; k < 3; ++k) {
    DataLoader loader(set, {.pin_memory = true});
    CHECK(indices_of_epoch(loader).size() == 4);
  }
  set_log_handler(before);
  CHECK(said ==
        std::vector<std::string>{"DataLoader: pin_memory is ignored: there is no GPU to copy to"});
}

TEST_CASE("loader: prefetch on the CPU gives the loader's batches") {
  const Synthetic set = augmented_images(20);
  DataLoader loader(set, {.batch_size = 6, .shuffle = true, .num_workers = 2, .drop_last = true});
  int64_t count = 0;
  for (auto& [x, y] : prefetch(loader, kCPU)) {
    CHECK(x.shape() == Shape{6, 3, 16, 16});
    CHECK(y.dtype() == kI64);
    ++count;
  }
  CHECK(count == 3);
}

TEST_CASE("loader: prefetch takes resident images on the CPU") {
  const StoredImages images({1, 2, 2, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {2, 1, 0}},
                            {"a", "b", "c"}, {0.5}, {0.25}, {});
  DataLoader loader(images, {.batch_size = 2});
  const auto resident = std::make_shared<ResidentImages>(images, kCPU);
  std::vector<int64_t> labels;
  for (auto& batch : prefetch(loader, kCPU, {.resident = resident})) {
    for (const int64_t label : batch.y.to_vector<int64_t>()) labels.push_back(label);
    CHECK(batch.x.dtype() == kU8);  // as they are stored: there is no transform
  }
  CHECK(labels == std::vector<int64_t>{2, 1, 0});
}

}  // namespace
}  // namespace lathe::data
