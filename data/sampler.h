// Samplers: the order in which an epoch visits the samples. The order is a function of (seed,
// epoch) and does not depend on the number of workers.
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

/// A permutation of 0 … n-1, drawn uniformly from all permutations by Fisher-Yates.
class LATHE_API RandomSampler final : public Sampler {
 public:
  explicit RandomSampler(int64_t n) : n_(n) {}
  int64_t size() const override { return n_; }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override;

 private:
  int64_t n_;
};

/// Draws `draws` indices with replacement. Index i has the probability weights[i] / (sum of the
/// weights).
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
class LATHE_API SubsetRandomSampler final : public Sampler {
 public:
  explicit SubsetRandomSampler(std::vector<int64_t> indices) : indices_(std::move(indices)) {}
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override;

 private:
  std::vector<int64_t> indices_;
};

/// The part of an epoch for one rank: every world_size-th index from `rank` on. If n is not a
/// multiple of world_size:
///   - By default the order is extended by its own beginning, so that all parts have the same size.
///   - With drop_last the order is cut instead.
///   - With pad = false nothing is added or cut: each sample is in one part, and the first n %
///     world_size parts have one more sample. Use it for evaluation, where counts are added up. In
///     training all ranks must run the same number of steps.
/// The order depends only on seed and epoch. So the batches of b samples on w ranks, taken
/// together, are the batches of b · w samples in one process. This holds for any w, except for
/// samples added at the end.
/// ref: PyTorch's DistributedSampler.
class LATHE_API DistributedSampler final : public Sampler {
 public:
  struct Options {
    bool shuffle = true;
    bool drop_last = false;
    bool pad = true;
  };
  /// throws: ValueError unless 0 <= rank < world_size and n >= 1. With pad = false, ValueError also
  /// if n < world_size, or if drop_last is set.
  DistributedSampler(int64_t n, int64_t rank, int64_t world_size)
      : DistributedSampler(n, rank, world_size, Options{}) {}
  DistributedSampler(int64_t n, int64_t rank, int64_t world_size, Options options);
  int64_t size() const override;
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override;

 private:
  int64_t n_, rank_, world_size_;
  Options options_;
};

/// Every sample once, with the samples of each class spread evenly: with k classes of equal size,
/// any m consecutive samples contain m / k ± 2 samples of each class. The order within a class is
/// random.
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

/// Decides which samples make up each batch. Use it for batches that are not simply consecutive
/// pieces of one order of samples.
class LATHE_API BatchSampler {
 public:
  virtual ~BatchSampler() = default;
  /// The number of batches in every epoch or, if it varies, in the next epoch.
  virtual int64_t size() const = 0;
  /// The batches of one epoch, as indices. They must depend only on (seed, epoch). No batch may be
  /// empty.
  virtual std::vector<std::vector<int64_t>> batches(uint64_t seed, int64_t epoch) const = 0;
};

}  // namespace lathe::data
