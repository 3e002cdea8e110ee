#include "lathe/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/data/random.h"

namespace lathe::data {

std::vector<int64_t> SequentialSampler::order(uint64_t, int64_t) const {
  std::vector<int64_t> indices(static_cast<size_t>(n_));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  return indices;
}

std::vector<int64_t> RandomSampler::order(uint64_t seed, int64_t epoch) const {
  std::vector<int64_t> indices = SequentialSampler(n_).order(seed, epoch);
  Random random(seed, epoch, 0, kOrderStream);
  for (size_t left = indices.size(); left > 1; --left)
    std::swap(indices[left - 1], indices[random.below(left)]);
  return indices;
}

WeightedSampler::WeightedSampler(const std::vector<double>& weights, int64_t draws)
    : draws_(draws) {
  LATHE_CHECK(ValueError, draws >= 1, "WeightedSampler: draws must be positive, got ", draws);
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    LATHE_CHECK(ValueError, std::isfinite(weights[i]) && weights[i] >= 0,
                "WeightedSampler: weight ", i, " is ", weights[i]);
    cumulative_.push_back(sum += weights[i]);
  }
  LATHE_CHECK(ValueError, sum > 0 && std::isfinite(sum), "WeightedSampler: the weights add up to ",
              sum);
}

std::vector<int64_t> WeightedSampler::order(uint64_t seed, int64_t epoch) const {
  std::vector<int64_t> indices(static_cast<size_t>(draws_));
  Random random(seed, epoch, 0, kOrderStream);
  for (int64_t& index : indices) {
    const uint64_t bits = uint64_t{random.bits()} << 32 | random.bits();
    const double at = static_cast<double>(bits >> 12) * 0x1p-52 * cumulative_.back();  // < the sum
    // The first index whose cumulative weight is above `at`: one of weight 0 is never chosen.
    index = std::upper_bound(cumulative_.begin(), cumulative_.end(), at) - cumulative_.begin();
  }
  return indices;
}

}  // namespace lathe::data
