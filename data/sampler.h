// In which order an epoch visits the samples. A function of (seed, epoch), whatever the number of
// workers.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/core/config.h"

namespace lathe::data {

class LATHE_API Sampler {
 public:
  virtual ~Sampler() = default;
  /// The number of indices in every epoch.
  virtual int64_t size() const = 0;
  /// The indices of one epoch, in order.
  virtual std::vector<int64_t> order(uint64_t seed, int64_t epoch) const = 0;
};

/// 0, 1, …, n-1.
class LATHE_API SequentialSampler final : public Sampler {
 public:
  explicit SequentialSampler(int64_t n) : n_(n) {}
  int64_t size() const override { return n_; }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override;

 private:
  int64_t n_;
};

/// A permutation of 0 … n-1, each equally likely: Fisher-Yates with the order stream of (seed,
/// epoch).
class LATHE_API RandomSampler final : public Sampler {
 public:
  explicit RandomSampler(int64_t n) : n_(n) {}
  int64_t size() const override { return n_; }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override;

 private:
  int64_t n_;
};

/// `draws` indices, index i with probability weights[i] / sum, with replacement.
/// throws: ValueError if draws < 1, a weight is negative or not finite, or all are 0.
class LATHE_API WeightedSampler final : public Sampler {
 public:
  WeightedSampler(const std::vector<double>& weights, int64_t draws);
  int64_t size() const override { return draws_; }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override;

 private:
  std::vector<double> cumulative_;
  int64_t draws_;
};

}  // namespace lathe::data
