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

}  // namespace
}  // namespace lathe::data
