// The samplers' orders: each a function of (seed, epoch).
#include "lathe/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/data/random.h"

namespace lathe::data {
namespace {

/// Fisher-Yates.
void shuffle(std::vector<int64_t>& indices, Random& random) {
  for (size_t left = indices.size(); left > 1; --left)
    std::swap(indices[left - 1], indices[random.below(left)]);
}

}  // namespace

std::vector<int64_t> SequentialSampler::order(uint64_t, int64_t) const {
  std::vector<int64_t> indices(static_cast<size_t>(n_));
  std::iota(indices.begin(), indices.end(), int64_t{0});
  return indices;
}

std::vector<int64_t> RandomSampler::order(uint64_t seed, int64_t epoch) const {
  std::vector<int64_t> indices = SequentialSampler(n_).order(seed, epoch);
  Random random(seed, epoch, 0, kOrderStream);
  shuffle(indices, random);
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
    // The first index whose cumulative weight is above `at`; an index of weight 0 is never chosen.
    index = std::upper_bound(cumulative_.begin(), cumulative_.end(), at) - cumulative_.begin();
  }
  return indices;
}

std::vector<int64_t> SubsetRandomSampler::order(uint64_t seed, int64_t epoch) const {
  std::vector<int64_t> indices = indices_;
  Random random(seed, epoch, 0, kOrderStream);
  shuffle(indices, random);
  return indices;
}

DistributedSampler::DistributedSampler(int64_t n, int64_t rank, int64_t world_size, Options options)
    : n_(n), rank_(rank), world_size_(world_size), options_(options) {
  LATHE_CHECK(ValueError, n >= 1, "DistributedSampler: n must be positive, got ", n);
  LATHE_CHECK(ValueError, world_size >= 1 && rank >= 0 && rank < world_size,
              "DistributedSampler: rank must be in [0, world_size), got rank ", rank, " of ",
              world_size);
  LATHE_CHECK(
      ValueError, options.pad || !options.drop_last,
      "DistributedSampler: drop_last cuts, and pad = false cuts nothing; set one of the two");
  LATHE_CHECK(ValueError, options.pad || n >= world_size, "DistributedSampler: ", n,
              " samples without padding leave some of ", world_size, " ranks none");
}

int64_t DistributedSampler::size() const {
  if (options_.drop_last) return n_ / world_size_;
  return ceil_div(options_.pad ? n_ : n_ - rank_, world_size_);
}

std::vector<int64_t> DistributedSampler::order(uint64_t seed, int64_t epoch) const {
  const std::vector<int64_t> all = options_.shuffle ? RandomSampler(n_).order(seed, epoch)
                                                    : SequentialSampler(n_).order(seed, epoch);
  std::vector<int64_t> mine;
  for (int64_t k = 0; k < size(); ++k)
    mine.push_back(all[static_cast<size_t>((rank_ + k * world_size_) % n_)]);
  return mine;
}

StratifiedSampler::StratifiedSampler(const std::vector<int64_t>& labels)
    : size_(static_cast<int64_t>(labels.size())) {
  std::map<int64_t, std::vector<int64_t>> classes;
  for (size_t i = 0; i < labels.size(); ++i) classes[labels[i]].push_back(static_cast<int64_t>(i));
  for (auto& [label, indices] : classes) of_class_.push_back(std::move(indices));
}

// Sample k of a class of n stands at (k + u) / n of the epoch, with one u in [0, 1) per class. A
// part s of an epoch then holds s · n of them, rounded up or down.
std::vector<int64_t> StratifiedSampler::order(uint64_t seed, int64_t epoch) const {
  Random random(seed, epoch, 0, kOrderStream);
  std::vector<std::pair<double, int64_t>> placed;
  for (std::vector<int64_t> indices : of_class_) {
    shuffle(indices, random);
    const auto offset = static_cast<double>(random.uniform());
    for (size_t k = 0; k < indices.size(); ++k)
      placed.emplace_back((static_cast<double>(k) + offset) / static_cast<double>(indices.size()),
                          indices[k]);
  }
  std::sort(placed.begin(), placed.end());
  std::vector<int64_t> order;
  for (const auto& [place, index] : placed) order.push_back(index);
  return order;
}

}  // namespace lathe::data
