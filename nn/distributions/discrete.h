// Discrete distributions. None has an rsample().
#pragma once

#include "lathe/nn/distributions/distribution.h"

namespace lathe::distributions {

/// Probabilities or their logarithms; exactly one of them is set.
struct ProbsOrLogits {
  Tensor probs = {}, logits = {};
};

/// 1 with probability `probs`, else 0. logits are log(probs / (1 - probs)).
class LATHE_API Bernoulli final : public Distribution {
 public:
  explicit Bernoulli(const ProbsOrLogits& p);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return probs; }
  Tensor variance() const override;
  bool has_rsample() const override { return false; }

  Tensor probs, logits;

 private:
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

/// A class number, i64, of 0 … C-1. probs and logits are […batch,C]. The given probs need not sum
/// to 1, and the given logits may be off by a constant: the constructor normalises both. A
/// Categorical has no mean.
class LATHE_API Categorical final : public Distribution {
 public:
  explicit Categorical(const ProbsOrLogits& p);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  bool has_rsample() const override { return false; }

  Tensor probs, logits;

 private:
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

/// How often each class comes in `total_count` draws of Categorical(p): a value is […batch,C] and
/// sums to total_count.
class LATHE_API Multinomial final : public Distribution {
 public:
  Multinomial(int64_t total_count, const ProbsOrLogits& p);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override;
  Tensor variance() const override;
  bool has_rsample() const override { return false; }

  int64_t total_count;
  Categorical categorical;

 private:
  Multinomial(int64_t count, const Categorical& classes);
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

}  // namespace lathe::distributions
