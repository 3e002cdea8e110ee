// Distributions made of others. Contracts: combined.h.
#include "lathe/nn/distributions/combined.h"

#include "lathe/nn/distributions/distribution_parts.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/index.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe::distributions {

static const Distribution& not_null(const char* name, const char* what,
                                    const std::shared_ptr<const Distribution>& d) {
  LATHE_CHECK(ValueError, d != nullptr, name, ": ", what, " is null");
  return *d;
}

static const Distribution& base_of(const std::shared_ptr<const Distribution>& base) {
  return not_null("Independent", "base", base);
}

/// The batch of `base`.
/// throws: ValueError unless it has `dims` dimensions.
static const Shape& batch_with(int dims, const Distribution& base) {
  LATHE_CHECK(ValueError, dims >= 0 && dims <= base.batch_shape().size(),
              "Independent: dims must be from 0 to the number of batch dimensions of ", base.name(),
              ", ", base.batch_shape().size(), ", got ", dims);
  return base.batch_shape();
}

// Both arguments of Distribution() check `dims_in`, because either may be evaluated first.
Independent::Independent(std::shared_ptr<const Distribution> base_in, int dims_in)
    : Distribution("Independent", without_last(batch_with(dims_in, base_of(base_in)), dims_in),
                   joined(last_of(batch_with(dims_in, base_of(base_in)), dims_in),
                          base_of(base_in).event_shape())),
      base(std::move(base_in)),
      dims(dims_in) {}
Tensor Independent::draw(const Shape& sample_shape, Generator* generator) const {
  return base->draw(sample_shape, generator);
}
Tensor Independent::log_prob(const Tensor& value) const {
  check_event(value);
  return sum_rightmost(base->log_prob(value), dims);
}
Tensor Independent::entropy() const { return sum_rightmost(base->entropy(), dims); }

static const Distribution& with_components(const Categorical& mixture,
                                           const std::shared_ptr<const Distribution>& component) {
  const Distribution& d = not_null("MixtureSameFamily", "component", component);
  const Shape& batch = d.batch_shape();
  LATHE_CHECK(ShapeError, batch == joined(mixture.batch_shape(), {mixture.probs.dim(-1)}),
              "MixtureSameFamily: the batch shape of the components must be ",
              mixture.batch_shape(), ", the mixture's, and then ", mixture.probs.dim(-1),
              ", its number of classes; got ", batch);
  return d;
}

MixtureSameFamily::MixtureSameFamily(const Categorical& mixture_in,
                                     std::shared_ptr<const Distribution> component_in)
    : Distribution("MixtureSameFamily",
                   without_last(with_components(mixture_in, component_in).batch_shape(), 1),
                   with_components(mixture_in, component_in).event_shape()),
      mixture(mixture_in),
      component(std::move(component_in)) {}

Tensor MixtureSameFamily::beside_components(const Tensor& x) const {
  return unsqueeze(x, -1 - event_shape().size());
}
Tensor MixtureSameFamily::weights() const {
  Tensor p = mixture.probs;
  for (int i = 0; i < event_shape().size(); ++i) p = unsqueeze(p, -1);
  return p;
}

Tensor MixtureSameFamily::draw(const Shape& sample_shape, Generator* generator) const {
  const Tensor chosen = mixture.sample(sample_shape, generator);  // […sample, …batch]
  const Tensor all = component->sample(sample_shape, generator);  // […sample, …batch, K, …event]
  Tensor index = unsqueeze(chosen, -1);
  for (int i = 0; i < event_shape().size(); ++i) index = unsqueeze(index, -1);
  const Shape one = joined(joined(chosen.shape(), {1}), event_shape());
  const int64_t dim = -1 - event_shape().size();
  return squeeze(gather(all, dim, expand(index, one)), dim);
}
Tensor MixtureSameFamily::log_prob(const Tensor& value) const {
  check_event(value);
  const Tensor each = component->log_prob(beside_components(value));
  return logsumexp(add(each, mixture.logits), {-1});
}
Tensor MixtureSameFamily::cdf(const Tensor& value) const {
  check_event(value);
  return sum(mul(component->cdf(beside_components(value)), mixture.probs), {-1});
}
Tensor MixtureSameFamily::mean() const {
  return sum(mul(weights(), component->mean()), {-1 - event_shape().size()});
}
Tensor MixtureSameFamily::variance() const {
  const int64_t dim = -1 - event_shape().size();
  const Tensor inside = sum(mul(weights(), component->variance()), {dim});
  const Tensor deviation = sub(component->mean(), unsqueeze(mean(), dim));
  return add(inside, sum(mul(weights(), square(deviation)), {dim}));
}

}  // namespace lathe::distributions
