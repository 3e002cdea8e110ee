// Solutions of the exercises of docs/tour, chapters 6 to 10: mixed precision, allocator, search,
// loader, graphs and many GPUs. Each case is named after its exercise. Chapters 1 to 5:
// solutions_1_to_5_test.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "../cuda_case.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/copy.h"
#include "lathe/lathe.h"
#include "tour_devices.h"

namespace lathe::test {
namespace {

double largest_difference(const Tensor& a, const Tensor& b) {
  return (a - b).abs().amax().item<double>();
}

// --- 6: mixed precision --------------------------------------------------------------------------

TEST_CASE("tour 6.1: adding ones in f16 stops at 2048") {
  Tensor sum = zeros({}, kF16);
  const Tensor one = ones({}, kF16);
  for (int i = 0; i < 3000; ++i) sum = sum + one;
  CHECK(sum.item<float>() == 2048);                       // 2049 is not there: it rounds back
  CHECK(ones({3000}, kF16).sum().item<float>() == 3000);  // Lathe adds in f32 and rounds once
}

TEST_CASE("tour 6.2: a small update is lost in f16 and kept in master weights") {
  for (const bool master : {false, true}) {
    const Tensor w = ones({}, kF16);
    w.requires_grad_();
    optim::SGD opt({w}, {.lr = 0x1p-13, .master_weights = master});  // half of what f16 sees at 1
    for (int step = 0; step < 8; ++step) {
      w.set_grad(full({}, -1.0, kF16));
      opt.step();
    }
    CHECK(w.item<double>() == (master ? 1 + 0x1p-10 : 1));  // 8 · 2^-13 = 2^-10
  }
}

TEST_CASE("tour 6.3: the scaler ends at the largest power of two that does not overflow") {
  const double gradient = 3;  // 3 · 2^14 = 49152 < 65504 < 3 · 2^15
  const Tensor w = ones({}, kF32);
  w.requires_grad_();
  optim::SGD opt({w}, {.lr = 0});
  optim::GradScaler scaler({.init_scale = 0x1p20, .growth_interval = 1000});
  int skipped = 0;
  while (true) {
    opt.zero_grad();
    scaler.scale(w.to(kF16).to(kF32) * gradient).backward();
    const bool overflow = std::isinf(w.grad().item<double>());
    scaler.step(opt);
    scaler.update();
    if (!overflow) break;
    ++skipped;
  }
  CHECK(scaler.get_scale() == 0x1p14);
  CHECK(skipped == 6);
}

// --- 7: the allocator ----------------------------------------------------------------------------

TEST_CASE("tour 7.1: twenty requests of 1 MiB take ten segments, twenty of a byte more take two") {
  for (const auto& [bytes, segments] :
       {std::pair{kMiB, size_t{10}}, std::pair{kMiB + 1, size_t{2}}}) {
    Addresses device(1 << 30);
    BlockPool pool(device);
    std::vector<void*> blocks;
    for (int i = 0; i < 20; ++i) blocks.push_back(pool.allocate(bytes, nullptr));
    CHECK(pool.stats().segments.current == segments);  // of 2 MiB; of 20 MiB, 19 blocks in each
    for (void* block : blocks) pool.deallocate(block);
  }
}

TEST_CASE("tour 7.2: sizes that grow from step to step leave cached segments that fit no more") {
  Addresses device(1 << 30);
  BlockPool pool(device);
  for (size_t step = 1; step <= 5; ++step)
    pool.deallocate(pool.allocate((10 + 2 * step) * kMiB, nullptr));
  CHECK(pool.stats().allocated_bytes.peak == 20 * kMiB);
  CHECK(pool.stats().reserved_bytes.current == (12 + 14 + 16 + 18 + 20) * kMiB);
  pool.empty_cache();
  CHECK(pool.stats().reserved_bytes.current == 0);
}

TEST_CASE("tour 7.3: before the pool gives up it returns what it caches") {
  Addresses device(64 * kMiB);
  BlockPool pool(device);
  void* small = pool.allocate(40 * kMiB, nullptr);
  pool.deallocate(small);
  void* large = pool.allocate(60 * kMiB, nullptr);  // 40 + 60 > 64: the device refuses at first
  CHECK(pool.stats().retries == 1);
  CHECK(pool.stats().reserved_bytes.current == 60 * kMiB);
  CHECK_THROWS_AS(pool.allocate(10 * kMiB, nullptr), OutOfMemoryError);
  pool.deallocate(large);
}

// --- 8: the search -------------------------------------------------------------------------------

TEST_CASE("tour 8.1: an engine whose first run loads its code still wins") {
  Engines engines;
  engines.ms = {1, 2};
  engines.first_ms = 500;
  ConvSearch search(10, [&] { return engines.now; });
  search.run(benchmark_key(), engines);
  CHECK(engines.executed == std::vector<int64_t>{0});
}

TEST_CASE("tour 8.2: the workspace limit is part of the key, and excludes engines") {
  Engines engines;
  engines.ms = {1, 2};
  engines.workspace = {1 << 16, 0};
  ConvSearch search(10, [&] { return engines.now; });
  ConvKey key = benchmark_key();
  search.run(key, engines);
  key.workspace_limit_bytes = 1 << 10;
  search.run(key, engines);
  CHECK(engines.executed == std::vector<int64_t>{0, 1});
  CHECK(search.stats().searches == 2);
}

TEST_CASE("tour 8.3: another alignment is another problem") {
  Engines engines;
  engines.ms = {1, 2};
  ConvSearch search(10, [&] { return engines.now; });
  ConvKey key = benchmark_key();
  for (const int64_t alignment : {16, 16, 8, 16, 8}) {
    key.x.alignment = alignment;
    search.run(key, engines);
  }
  CHECK(search.stats().searches == 2);
  CHECK(search.stats().hits == 3);
}

// --- 9: the loader -------------------------------------------------------------------------------

TEST_CASE(
    "tour 9.1: parts of an epoch for several GPUs are disjoint, equal in size, and cover it") {
  std::multiset<int64_t> seen;
  for (int64_t rank = 0; rank < 4; ++rank) {
    const data::DistributedSampler part(10, rank, 4);
    CHECK(part.size() == 3);  // 12 in all: two samples come twice, so that all have equal parts
    for (const int64_t i : part.order(7, 0)) seen.insert(i);
  }
  CHECK(seen.size() == 12);
  CHECK(std::set<int64_t>(seen.begin(), seen.end()).size() == 10);
}

/// n-1, …, 1, 0.
class Backwards final : public data::Sampler {
 public:
  explicit Backwards(int64_t n) : n_(n) {}
  int64_t size() const override { return n_; }
  std::vector<int64_t> order(uint64_t, int64_t) const override {
    std::vector<int64_t> all(static_cast<size_t>(n_));
    for (int64_t i = 0; i < n_; ++i) all[static_cast<size_t>(i)] = n_ - 1 - i;
    return all;
  }

 private:
  int64_t n_;
};

const data::FunctionDataset& numbers() {
  static const data::FunctionDataset set = data::from_function(
      10, [](int64_t i) { return data::Example(tensor(static_cast<float>(i)), i); });
  return set;
}

std::vector<int64_t> labels_of(data::DataLoader& loader) {
  std::vector<int64_t> all;
  for (auto& batch : loader) {
    for (const int64_t label : batch.y.to_vector<int64_t>()) all.push_back(label);
  }
  return all;
}

TEST_CASE("tour 9.2: a sampler of one's own decides the order, with any number of workers") {
  for (const int64_t workers : {0, 3}) {
    data::DataLoader loader(
        numbers(),
        {.batch_size = 4, .num_workers = workers, .sampler = std::make_shared<Backwards>(10)});
    CHECK(labels_of(loader) == std::vector<int64_t>{9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
  }
}

TEST_CASE("tour 9.3: a loader that is resumed at any batch gives the rest of the epoch") {
  const data::DataLoaderOptions options{.batch_size = 3, .shuffle = true, .seed = 5};
  data::DataLoader whole(numbers(), options);
  const std::vector<int64_t> all = labels_of(whole);
  for (int64_t batch = 0; batch < 4; ++batch) {
    data::DataLoader loader(numbers(), options);
    loader.set_epoch(0, batch);
    CHECK(labels_of(loader) == std::vector<int64_t>(all.begin() + 3 * batch, all.end()));
  }
}

// --- 10: graphs, and many GPUs -------------------------------------------------------------------

TEST_CASE("tour 10.1: statistics of shards give those of the whole batch") {
  const Tensor x = randn({8, 3}, kF64), a = x.slice(0, 0, 2), b = x.slice(0, 2, 8);
  const auto mean_of = [](const Tensor& t) { return t.mean({0}); };
  const auto var_of = [&](const Tensor& t) { return (t - mean_of(t)).square().mean({0}); };
  const Tensor mean = (mean_of(a) * 2 + mean_of(b) * 6) / 8;
  // The variance within the shards, and that of their means (Chan, Golub, LeVeque 1979).
  const Tensor within = (var_of(a) * 2 + var_of(b) * 6) / 8;
  const Tensor between = ((mean_of(a) - mean).square() * 2 + (mean_of(b) - mean).square() * 6) / 8;
  CHECK(largest_difference(mean, mean_of(x)) < 1e-14);
  CHECK(largest_difference(within + between, var_of(x)) < 1e-14);
}

TEST_CASE(
    "tour 10.2: k parts of a batch one after another, each loss divided by k, are the batch") {
  const Tensor x = randn({6, 4}, kF64), y = randn({6, 1}, kF64), w = randn({4, 1}, kF64);
  w.requires_grad_();
  const auto loss_of = [&](int64_t first, int64_t last) {
    return (matmul(x.slice(0, first, last), w) - y.slice(0, first, last)).square().mean();
  };
  const Tensor whole = grad({loss_of(0, 6)}, {w})[0];
  for (int64_t part = 0; part < 3; ++part) (loss_of(2 * part, 2 * part + 2) / 3).backward();
  CHECK(largest_difference(w.grad(), whole) < 1e-14);
}

TEST_CASE("tour 10.3: a graph reads new input from the tensor that it was recorded with" *
          cuda_case()) {
  const Device gpu("cuda");
  const Tensor x = ones({4}).to(gpu);
  Tensor y;
  cuda::Graph graph(gpu);
  graph.capture([&] { y = x * 2; });
  copy_values(x, full({4}, 5.f).to(gpu));
  graph.launch();
  CHECK(y.cpu().to_vector<float>() == std::vector<float>(4, 10.f));
}

}  // namespace
}  // namespace lathe::test
