// What all distributions share. Contracts: distribution.h, distribution_parts.h.
#include "lathe/nn/distributions/distribution.h"

#include <limits>

#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/distributions/distribution_parts.h"
#include "lathe/ops/argmax.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe::distributions {

Tensor Distribution::sample(const Shape& sample_shape, Generator* generator) const {
  const NoGrad off;
  return draw(sample_shape, generator);
}

Tensor Distribution::rsample(const Shape& sample_shape, Generator* generator) const {
  LATHE_CHECK(ValueError, has_rsample(), name_,
              ": has no rsample, because its samples are no differentiable function of its "
              "parameters; sample() draws without gradients");
  return draw(sample_shape, generator);
}

Tensor Distribution::entropy() const { throw_without("entropy"); }
Tensor Distribution::cdf(const Tensor&) const { throw_without("cdf"); }

void Distribution::throw_without(const char* function) const {
  LATHE_FAIL(ValueError, name_, ": has no ", function, " in closed form");
}

Shape Distribution::extended(const Shape& sample_shape) const {
  return joined(joined(sample_shape, batch_), event_);
}

void Distribution::check_event(const Tensor& value) const {
  const int dims = event_.size();
  LATHE_CHECK(ShapeError, value.ndim() >= dims && last_of(value.shape(), dims) == event_, name_,
              ": value must end with the event shape ", event_, ", got shape ", value.shape());
}

Tensors broadcast(const char* name, std::initializer_list<Param> params) {
  TensorOptions options{};
  Shape shape;
  for (const Param& p : params) {
    if (!p.tensor().defined()) continue;
    options = p.tensor().options();
    shape = broadcast_shapes(name, shape, p.tensor().shape());
  }
  Tensors out;
  for (const Param& p : params) {
    const Tensor t = p.tensor().defined() ? p.tensor() : full({}, p.number(), options);
    LATHE_CHECK(DTypeError, t.dtype() == kF32 || t.dtype() == kF64, name,
                ": expected parameters in f32 or f64 (", t, ")");
    LATHE_CHECK(DTypeError, t.dtype() == (out.empty() ? t : out.front()).dtype(), name,
                ": expected parameters of one dtype, got ", out.front().dtype(), " and ",
                t.dtype());
    out.push_back(expand(t, shape));
  }
  return out;
}

void check_each(const char* name, const char* what, const char* must, const Tensor& holds,
                const Tensor& values) {
  const NoGrad off;
  if (all(holds).item<bool>()) return;
  const auto at = argmax(reshape(logical_not(holds), {-1})).item<int64_t>();
  const Tensor flat = reshape(expand(values, holds.shape()), {-1});
  LATHE_FAIL(ValueError, name, ": ", what, " must be ", must, ", got ",
             select(flat, 0, at).item<double>(), " at element ", at, " (", what, ": ", values, ")");
}

Tensor xlogy(const Tensor& a, const Tensor& b) {
  return mul(a, log(where(logical_and(eq(a, 0), eq(b, 0)), 1, b)));
}

Tensor sum_rightmost(const Tensor& x, int count) {
  Dims dims;
  for (int i = 1; i <= count; ++i) dims.push_back(-i);
  return count == 0 ? x : sum(x, dims);
}

Shape joined(const Shape& a, const Shape& b) {
  Shape out = a;
  for (const int64_t size : b) out.push_back(size);
  return out;
}

Shape without_last(const Shape& a, int count) {
  Shape out;
  for (int i = 0; i < a.size() - count; ++i) out.push_back(a[i]);
  return out;
}

Shape last_of(const Shape& a, int count) {
  Shape out;
  for (int i = a.size() - count; i < a.size(); ++i) out.push_back(a[i]);
  return out;
}

static double eps_of(DType dtype) {
  return dtype == kF64 ? std::numeric_limits<double>::epsilon()
                       : std::numeric_limits<float>::epsilon();
}
static double least_normal(DType dtype) {
  return dtype == kF64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
}

Tensor clamped_probs(const Tensor& p) {
  const double eps = eps_of(p.dtype());
  return clamp(p, eps, 1 - eps);
}
Tensor above_zero(const Tensor& x, DType dtype) {
  return cast(clamp(x, {.low = least_normal(dtype)}), dtype);
}
Tensor between_zero_and_one(const Tensor& x, DType dtype) {
  return cast(clamp(x, least_normal(dtype), 1 - eps_of(dtype) / 2), dtype);
}

}  // namespace lathe::distributions
