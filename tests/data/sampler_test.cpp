#include "lathe/data/sampler.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "lathe/core/error.h"
#include "lathe/data/random.h"

namespace lathe::data {
namespace {

std::vector<int64_t> sorted(std::vector<int64_t> v) {
  std::sort(v.begin(), v.end());
  return v;
}

TEST_CASE("sampler: sequential and random orders hold every index once") {
  for (const int64_t n : {0, 1, 2, 7, 1000}) {
    std::vector<int64_t> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), int64_t{0});
    CHECK(SequentialSampler(n).order(1, 2) == all);
    CHECK(sorted(RandomSampler(n).order(1, 2)) == all);
  }
}

TEST_CASE("sampler: a random order is a function of seed and epoch") {
  const RandomSampler sampler(100);
  CHECK(sampler.order(1, 2) == sampler.order(1, 2));
  CHECK(sampler.order(1, 2) != sampler.order(1, 3));
  CHECK(sampler.order(1, 2) != sampler.order(2, 2));
}

TEST_CASE("sampler: every permutation is equally likely") {
  const RandomSampler sampler(4);
  std::map<std::vector<int64_t>, int> counts;
  for (int64_t epoch = 0; epoch < 24'000; ++epoch) ++counts[sampler.order(7, epoch)];
  REQUIRE(counts.size() == 24);
  double chi2 = 0;
  for (const auto& [order, count] : counts) chi2 += (count - 1000.0) * (count - 1000.0) / 1000.0;
  CHECK(chi2 < 49.7);  // 99.9 % point of chi-squared with 23 degrees of freedom
}

TEST_CASE("sampler: weights decide how often an index comes, and weight 0 never") {
  const WeightedSampler sampler({0, 1, 0, 3, 0}, 40'000);
  std::map<int64_t, int> counts;
  for (const int64_t i : sampler.order(1, 0)) ++counts[i];
  CHECK(counts.size() == 2);
  CHECK(std::abs(counts[1] - 10'000) < 450);  // 5 standard deviations
  CHECK(sampler.order(1, 0) == sampler.order(1, 0));
  CHECK_THROWS_AS(WeightedSampler({1, -1}, 1), ValueError);
  CHECK_THROWS_AS(WeightedSampler({0, 0}, 1), ValueError);
  CHECK_THROWS_AS(WeightedSampler({}, 1), ValueError);
  CHECK_THROWS_AS(WeightedSampler({1}, 0), ValueError);
  CHECK_THROWS_AS(WeightedSampler({std::numeric_limits<double>::infinity()}, 1), ValueError);
}

TEST_CASE("random: no two samples, epochs or streams share their numbers") {
  std::set<std::pair<uint32_t, uint32_t>> seen;
  int streams = 0;
  for (int64_t epoch = 0; epoch < 10; ++epoch)
    for (int64_t index = 0; index < 100; ++index)
      for (const int stream : {0, 1, 128, 255}) {
        Random random = Key{3, epoch, index}.random(stream);
        for (int k = 0; k < 5; ++k) {  // across a block of four
          const uint32_t a = random.bits();
          seen.insert({a, random.bits()});
          ++streams;
        }
      }
  CHECK(static_cast<int>(seen.size()) == streams);
}

TEST_CASE("random: below(n) is uniform, also where 32 bits do not suffice") {
  Random random(1, 2, 3, 4);
  int counts[6] = {};
  for (int k = 0; k < 60'000; ++k) ++counts[random.below(6)];
  for (const int count : counts) CHECK(std::abs(count - 10'000) < 460);  // 5 standard deviations
  const uint64_t large = 5'000'000'000;
  uint64_t most = 0;
  for (int k = 0; k < 1000; ++k) {
    const uint64_t value = random.below(large);
    REQUIRE(value < large);
    most = std::max(most, value);
  }
  CHECK(most > UINT32_MAX);
  CHECK(random.below(1) == 0);
}

TEST_CASE("sampler: SubsetRandomSampler shuffles its indices anew in every epoch") {
  const std::vector<int64_t> some = {3, 9, 4, 4, 17, 1};
  const SubsetRandomSampler sampler(some);
  CHECK(sampler.size() == 6);
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    CHECK(sorted(sampler.order(7, epoch)) == sorted(some));
    CHECK(sampler.order(7, epoch) == sampler.order(7, epoch));
    orders.insert(sampler.order(7, epoch));
  }
  CHECK(orders.size() > 10);  // 360 different ones are possible
}

TEST_CASE(
    "sampler: any number of ranks has the same global batches, and without padding all once") {
  const int64_t n = 50, batch = 12;
  const std::vector<int64_t> all = RandomSampler(n).order(3, 4);
  for (const int64_t world : {1, 2, 3, 4}) {
    std::vector<std::vector<int64_t>> batches(static_cast<size_t>(n / batch));
    std::vector<int64_t> evaluated;
    for (int64_t rank = 0; rank < world; ++rank) {
      const std::vector<int64_t> part = DistributedSampler(n, rank, world).order(3, 4);
      for (size_t k = 0; k < batches.size(); ++k) {
        const auto first = part.begin() + static_cast<int64_t>(k) * (batch / world);
        batches[k].insert(batches[k].end(), first, first + batch / world);
      }
      const DistributedSampler whole(n, rank, world, {.pad = false});
      const std::vector<int64_t> own = whole.order(3, 4);
      CHECK(whole.size() == static_cast<int64_t>(own.size()));
      evaluated.insert(evaluated.end(), own.begin(), own.end());
    }
    for (size_t k = 0; k < batches.size(); ++k) {
      std::vector<int64_t> expected(all.begin() + static_cast<int64_t>(k) * batch,
                                    all.begin() + static_cast<int64_t>(k + 1) * batch);
      std::ranges::sort(expected);
      std::ranges::sort(batches[k]);
      CHECK(batches[k] == expected);
    }
    std::ranges::sort(evaluated);
    CHECK(evaluated == SequentialSampler(n).order(0, 0));
  }
  CHECK_THROWS_AS(DistributedSampler(3, 0, 4, {.pad = false}), ValueError);
  CHECK_THROWS_AS(DistributedSampler(9, 0, 4, {.drop_last = true, .pad = false}), ValueError);
}

TEST_CASE("sampler: the parts of DistributedSampler make the epoch, filled up or cut") {
  for (const int64_t n : {1, 7, 8, 100})
    for (const int64_t world : {1, 3, 8})
      for (const bool shuffle : {false, true}) {
        CAPTURE(n);
        CAPTURE(world);
        const std::vector<int64_t> whole =
            shuffle ? RandomSampler(n).order(5, 2) : SequentialSampler(n).order(5, 2);
        std::vector<int64_t> padded(static_cast<size_t>((n + world - 1) / world * world));
        for (size_t k = 0; k < padded.size(); ++k) padded[k] = whole[k % whole.size()];
        std::vector<int64_t> joined(padded.size()), cut;
        for (int64_t rank = 0; rank < world; ++rank) {
          const DistributedSampler part(n, rank, world, {.shuffle = shuffle});
          const std::vector<int64_t> mine = part.order(5, 2);
          REQUIRE(static_cast<int64_t>(mine.size()) == part.size());
          for (size_t k = 0; k < mine.size(); ++k)
            joined[k * static_cast<size_t>(world) + static_cast<size_t>(rank)] = mine[k];
          const DistributedSampler shorter(n, rank, world, {shuffle, true});
          CHECK(shorter.size() == n / world);
          for (const int64_t i : shorter.order(5, 2)) cut.push_back(i);
        }
        CHECK(joined == padded);
        CHECK(std::set<int64_t>(cut.begin(), cut.end()).size() == cut.size());
        CHECK(static_cast<int64_t>(cut.size()) == n / world * world);
      }
  CHECK_THROWS_AS(DistributedSampler(10, 3, 3), ValueError);
  CHECK_THROWS_AS(DistributedSampler(0, 0, 1), ValueError);
}

TEST_CASE("sampler: StratifiedSampler mixes the classes evenly, in a new order in every epoch") {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < 1000; ++i)
    labels.push_back(i / 100 - 3);  // ten classes, one after another
  const StratifiedSampler sampler(labels);
  CHECK(sampler.size() == 1000);
  const std::vector<int64_t> order = sampler.order(3, 0);
  CHECK(sorted(order) == SequentialSampler(1000).order(0, 0));
  CHECK(order != sampler.order(3, 1));
  for (size_t begin = 0; begin + 50 <= order.size(); begin += 7) {
    std::map<int64_t, int> count;
    for (size_t k = begin; k < begin + 50; ++k) ++count[labels[static_cast<size_t>(order[k])]];
    for (int64_t c = -3; c < 7; ++c) {
      CHECK(count[c] >= 3);
      CHECK(count[c] <= 7);
    }
  }
  CHECK(StratifiedSampler({}).order(0, 0).empty());
}

}  // namespace
}  // namespace lathe::data
