// Distributions made of others.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "lathe/nn/distributions/discrete.h"
#include "lathe/nn/distributions/distribution.h"

namespace lathe::distributions {

/// `base` with its last `dims` batch dimensions as part of the event: log_prob and entropy are
/// summed over them. Independent(Normal(loc, scale), 1) is a normal vector.
class LATHE_API Independent final : public Distribution {
 public:
  /// throws: ValueError for a null base; unless 0 <= dims <= its number of batch dimensions.
  template <class D>
  requires(std::is_base_of_v<Distribution, D>) Independent(D over, int count)
      : Independent(std::make_shared<const D>(std::move(over)), count) {}
  Independent(std::shared_ptr<const Distribution> base, int dims);
  Tensor log_prob(const Tensor& value) const override;
  Tensor entropy() const override;
  Tensor mean() const override { return base->mean(); }
  Tensor variance() const override { return base->variance(); }
  bool has_rsample() const override { return base->has_rsample(); }

  std::shared_ptr<const Distribution> base;
  int dims;

 private:
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
};

/// A mixture of K distributions. `component` has the batch shape […batch,K]: its last dimension is
/// over the K distributions. `mixture` has the batch shape […batch] and K classes: it chooses from
/// which distribution a value is drawn. A MixtureSameFamily has neither an rsample() nor an
/// entropy().
class LATHE_API MixtureSameFamily final : public Distribution {
 public:
  /// throws: ShapeError unless the batches fit; ValueError for a null component.
  template <class D>
  requires(std::is_base_of_v<Distribution, D>)
      MixtureSameFamily(const Categorical& choice, D family)
      : MixtureSameFamily(choice, std::make_shared<const D>(std::move(family))) {}
  MixtureSameFamily(const Categorical& mixture, std::shared_ptr<const Distribution> component);
  Tensor log_prob(const Tensor& value) const override;
  Tensor cdf(const Tensor& value) const override;
  Tensor mean() const override;
  Tensor variance() const override;
  bool has_rsample() const override { return false; }

  Categorical mixture;
  std::shared_ptr<const Distribution> component;

 private:
  Tensor draw(const Shape& sample_shape, Generator* generator) const override;
  /// x with a dimension for the components before the event.
  Tensor beside_components(const Tensor& x) const;
  /// The mixture's probabilities, with dimensions for the event.
  Tensor weights() const;
};

}  // namespace lathe::distributions
