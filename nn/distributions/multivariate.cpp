// Distributions of a vector. Contracts: multivariate.h.
#include "lathe/nn/distributions/multivariate.h"

#include <cmath>
#include <numbers>

#include "lathe/nn/distributions/distribution_parts.h"
#include "lathe/nn/distributions/standard_gamma.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/diagonal.h"
#include "lathe/ops/linalg/linalg.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/random.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/special.h"
#include "lathe/ops/triangle.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe::distributions {

namespace {

/// The shape of x.
/// throws: DTypeError; ShapeError unless x holds vectors.
const Shape& shape_of_vectors(const char* name, const Tensor& x) {
  LATHE_CHECK(DTypeError, x.dtype() == kF32 || x.dtype() == kF64, name,
              ": expected parameters in f32 or f64 (", x, ")");
  LATHE_CHECK(ShapeError, x.ndim() > 0, name, ": expected vectors, […,d] (", x, ")");
  return x.shape();
}

/// The Cholesky factor of an inverse: that of the matrix read backwards, backwards and inverted.
Tensor factor_of_inverse(const Tensor& precision) {
  const Tensor backwards = linalg::cholesky(flip(precision, {-2, -1}));
  const Tensor upper = transpose(flip(backwards, {-2, -1}), -2, -1);
  return linalg::solve_triangular(upper, eye(precision.dim(-1), precision.options()));
}

/// factor(), a Cholesky factor of the matrix `what`. Errors begin with the distribution's name.
template <class F>
Tensor factor_for(const char* what, const F& factor) {
  try {
    return factor();
  } catch (const ValueError& e) {
    LATHE_FAIL(ValueError, "MultivariateNormal: ", what,
               " must be positive definite: ", e.message());
  }
}

/// The Cholesky factor of the covariance.
Tensor factor_of(const Tensor& loc, const CovarianceOptions& c) {
  const int given =
      c.covariance_matrix.defined() + c.precision_matrix.defined() + c.scale_tril.defined();
  LATHE_CHECK(ValueError, given == 1,
              "MultivariateNormal: set one of covariance_matrix, precision_matrix and scale_tril, "
              "got ",
              given);
  const Tensor& matrix = c.covariance_matrix.defined()  ? c.covariance_matrix
                         : c.precision_matrix.defined() ? c.precision_matrix
                                                        : c.scale_tril;
  LATHE_CHECK(ShapeError,
              loc.ndim() > 0 && matrix.ndim() >= 2 && matrix.dim(-1) == loc.dim(-1) &&
                  matrix.dim(-2) == loc.dim(-1),
              "MultivariateNormal: expected loc […,d] and a matrix […,d,d] (loc: ", loc,
              ", matrix: ", matrix, ")");
  LATHE_CHECK(DTypeError,
              matrix.dtype() == loc.dtype() && (loc.dtype() == kF32 || loc.dtype() == kF64),
              "MultivariateNormal: expected loc and matrix in f32 or in f64 (loc: ", loc,
              ", matrix: ", matrix, ")");
  if (c.covariance_matrix.defined())
    return factor_for("covariance_matrix", [&] { return linalg::cholesky(matrix); });
  if (c.precision_matrix.defined())
    return factor_for("precision_matrix", [&] { return factor_of_inverse(matrix); });
  const Tensor diagonals = diagonal(matrix, {.dim1 = -2, .dim2 = -1});
  check_each("MultivariateNormal", "the diagonal of scale_tril", "positive", gt(diagonals, 0),
             diagonals);
  return tril(matrix);
}

Tensor squared_distance(const Tensor& difference, const Tensor& factor) {
  const Tensor whitened = linalg::solve_triangular(factor, unsqueeze(difference, -1));
  return sum(square(squeeze(whitened, -1)), {-1});
}

Tensor log_diagonal_sum(const Tensor& factor) {
  return sum(log(diagonal(factor, {.dim1 = -2, .dim2 = -1})), {-1});
}

}  // namespace

// Both arguments of Distribution() check the shape, because either may be evaluated first.
Dirichlet::Dirichlet(const Tensor& concentration_in)
    : Distribution("Dirichlet", without_last(shape_of_vectors("Dirichlet", concentration_in), 1),
                   last_of(shape_of_vectors("Dirichlet", concentration_in), 1)),
      concentration(concentration_in) {
  check_each(name(), "concentration", "positive", gt(concentration, 0), concentration);
}
Tensor Dirichlet::draw(const Shape& sample_shape, Generator* generator) const {
  const Tensor logs = log_standard_gamma(expand(concentration, extended(sample_shape)), generator);
  return between_zero_and_one(softmax(logs, -1), concentration.dtype());
}
Tensor Dirichlet::log_prob(const Tensor& value) const {
  check_event(value);
  const Tensor total = sum(value, {-1});
  check_each(name(), "value", "at least 0", ge(value, 0), value);
  check_each(name(), "the sum of value", "1", lt(abs(sub(total, 1)), 1e-6), total);
  const Tensor powers = sum(xlogy(sub(concentration, 1), value), {-1});
  return sub(add(powers, lgamma(sum(concentration, {-1}))), sum(lgamma(concentration), {-1}));
}
Tensor Dirichlet::entropy() const {
  const auto k = static_cast<double>(concentration.dim(-1));
  const Tensor total = sum(concentration, {-1});
  const Tensor norm = sub(sum(lgamma(concentration), {-1}), lgamma(total));
  const Tensor own = sum(mul(sub(concentration, 1), digamma(concentration)), {-1});
  return sub(add(norm, mul(sub(total, k), digamma(total))), own);
}
Tensor Dirichlet::mean() const {
  return div(concentration, sum(concentration, {-1}, {.keepdim = true}));
}
Tensor Dirichlet::variance() const {
  const Tensor total = sum(concentration, {-1}, {.keepdim = true});
  return div(mul(mean(), sub(1, mean())), add(total, 1));
}

MultivariateNormal::MultivariateNormal(const Tensor& loc_in, const CovarianceOptions& covariance)
    : MultivariateNormal(loc_in, factor_of(loc_in, covariance),
                         without_last(shape_of_vectors("MultivariateNormal", loc_in), 1)) {}
MultivariateNormal::MultivariateNormal(const Tensor& loc_in, const Tensor& factor,
                                       const Shape& batch)
    : Distribution("MultivariateNormal",
                   broadcast_shapes("MultivariateNormal", batch, without_last(factor.shape(), 2)),
                   last_of(loc_in.shape(), 1)) {
  loc = expand(loc_in, joined(batch_shape(), event_shape()));
  scale_tril = expand(factor, joined(batch_shape(), last_of(factor.shape(), 2)));
  check_each(name(), "loc", "numbers", eq(loc, loc), loc);
}
Tensor MultivariateNormal::draw(const Shape& sample_shape, Generator* generator) const {
  const Tensor noise = randn(extended(sample_shape), loc.options(), generator);
  return add(loc, squeeze(matmul(scale_tril, unsqueeze(noise, -1)), -1));
}
Tensor MultivariateNormal::log_prob(const Tensor& value) const {
  check_event(value);
  check_each(name(), "value", "numbers", eq(value, value), value);
  const double constant = static_cast<double>(loc.dim(-1)) * std::log(2 * std::numbers::pi);
  const Tensor distance = squared_distance(sub(value, loc), scale_tril);
  return sub(mul(add(distance, constant), -0.5), log_diagonal_sum(scale_tril));
}
Tensor MultivariateNormal::entropy() const {
  const double constant = static_cast<double>(loc.dim(-1)) * (1 + std::log(2 * std::numbers::pi));
  return add(log_diagonal_sum(scale_tril), 0.5 * constant);
}
Tensor MultivariateNormal::variance() const { return sum(square(scale_tril), {-1}); }
Tensor MultivariateNormal::covariance_matrix() const {
  return matmul(scale_tril, transpose(scale_tril, -2, -1));
}

}  // namespace lathe::distributions
