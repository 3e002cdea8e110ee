// Distribution: what all probability distributions of this folder share. distributions.h has all of
// them; their names, parameters and results are those of torch.distributions.
#pragma once

#include "lathe/core/random/generator.h"
#include "lathe/core/tensor.h"

namespace lathe::distributions {

/// A parameter of a distribution: a tensor, or a number in the dtype and on the device of the other
/// parameters.
class Param {
 public:
  Param(const Tensor& t) : tensor_(t) {}
  Param(double number) : number_(number) {}

  const Tensor& tensor() const { return tensor_; }
  double number() const { return number_; }

 private:
  Tensor tensor_;
  double number_ = 0;
};

/// A batch of distributions: a value is […sample, …batch, …event].
/// Parameters keep their history, so log_prob(), entropy() and rsample() are differentiable by
/// them. The constructor checks the parameters. log_prob() and cdf() check their values. Each check
/// of tensors on a GPU waits until the GPU has computed it.
/// dtypes: f32, f64.
/// throws: ValueError for a parameter out of its range, for a value outside the support, and for a
/// function that the distribution does not have; ShapeError, DTypeError, DeviceError.
class LATHE_API Distribution {
 public:
  virtual ~Distribution() = default;

  const Shape& batch_shape() const { return batch_; }
  const Shape& event_shape() const { return event_; }
  const char* name() const { return name_; }

  /// Random values, without history. Without a `generator` it uses the default generator of the
  /// parameters' device.
  ///   →  […sample_shape, …batch, …event]
  Tensor sample(const Shape& sample_shape = {}, Generator* generator = nullptr) const;
  /// Random values that are a differentiable function of the parameters.
  /// throws: ValueError if there is no such function, as for discrete distributions.
  Tensor rsample(const Shape& sample_shape = {}, Generator* generator = nullptr) const;

  /// The logarithm of the density, or of the probability.
  ///   value  […sample, …batch, …event]; all dimensions but the event's broadcast
  /// →  […sample, …batch]
  virtual Tensor log_prob(const Tensor& value) const = 0;
  /// →  […batch]
  virtual Tensor entropy() const;
  /// P(X <= value).
  virtual Tensor cdf(const Tensor& value) const;
  /// mean() and variance() both return […batch, …event].
  virtual Tensor mean() const = 0;
  virtual Tensor variance() const = 0;
  virtual bool has_rsample() const { return true; }

 protected:
  Distribution(const char* name, const Shape& batch, const Shape& event)
      : name_(name), batch_(batch), event_(event) {}
  Distribution(const Distribution&) = default;
  Distribution& operator=(const Distribution&) = default;

  /// A sample, with history if has_rsample().
  virtual Tensor draw(const Shape& sample_shape, Generator* generator) const = 0;
  /// sample_shape, batch and event as one shape.
  Shape extended(const Shape& sample_shape) const;
  /// throws: ShapeError unless the last sizes of `value` are those of the event.
  void check_event(const Tensor& value) const;
  [[noreturn]] void throw_without(const char* function) const;

  friend class Independent;  // these draw from another distribution
  friend class MixtureSameFamily;

 private:
  const char* name_;
  Shape batch_, event_;
};

}  // namespace lathe::distributions
