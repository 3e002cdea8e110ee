// Samplers: in which order an epoch visits the samples. The order is a function of (seed, epoch)
// and does not depend on the number of workers.
#pragma once

#include <cstdint>
#include <utility>
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

/// A permutation of 0 … n-1, each equally likely: Fisher-Yates with the random numbers of (seed,
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

/// The samples `indices`, in a new random order in every epoch.
/// ref: as RandomSampler.
class LATHE_API SubsetRandomSampler final : public Sampler {
 public:
  explicit SubsetRandomSampler(std::vector<int64_t> indices) : indices_(std::move(indices)) {}
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override;

 private:
  std::vector<int64_t> indices_;
};

/// Part `rank` of `world_size` equal parts of an epoch: every world_size-th index from `rank` on.
/// The parts are disjoint and have the same size: to divide evenly, the order is extended by its
/// own beginning or, with drop_last, cut. With pad = false nothing is added or cut: every sample is
/// in one part, and the first n % world_size parts have one more than the others. That is for
/// evaluation, where counts are added up; in training all ranks must run as many steps.
/// The order depends on seed and epoch only. So batches of b samples on w ranks are together the
/// batches of b · w samples in one process, whatever w is, but for what is added at the end.
/// ref: PyTorch's DistributedSampler.
class LATHE_API DistributedSampler final : public Sampler {
 public:
  struct Options {
    bool shuffle = true;
    bool drop_last = false;
    bool pad = true;
  };
  /// throws: ValueError unless 0 <= rank < world_size and n >= 1; without `pad` also for n below
  /// world_size and for drop_last.
  DistributedSampler(int64_t n, int64_t rank, int64_t world_size)
      : DistributedSampler(n, rank, world_size, Options{}) {}
  DistributedSampler(int64_t n, int64_t rank, int64_t world_size, Options options);
  int64_t size() const override;
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override;

 private:
  int64_t n_, rank_, world_size_;
  Options options_;
};

/// Every sample once, with the samples of each class at equal distances: with k classes of equal
/// size, any stretch of m samples holds m / k of each, give or take two. The order within a class
/// is random.
class LATHE_API StratifiedSampler final : public Sampler {
 public:
  /// labels[i]: the class of sample i, any number.
  explicit StratifiedSampler(const std::vector<int64_t>& labels);
  int64_t size() const override { return size_; }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override;

 private:
  int64_t size_;
  std::vector<std::vector<int64_t>> of_class_;
};

/// Decides which samples make a batch, if batches are not simply equal pieces of an order.
class LATHE_API BatchSampler {
 public:
  virtual ~BatchSampler() = default;
  /// The number of batches in every epoch or, if it varies, in the next one.
  virtual int64_t size() const = 0;
  /// The batches of one epoch, none empty: a function of (seed, epoch).
  virtual std::vector<std::vector<int64_t>> batches(uint64_t seed, int64_t epoch) const = 0;
};

}  // namespace lathe::data
