// mixup, cutmix, and the draws from Beta(alpha, alpha).
#include "lathe/data/transforms/mix.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lathe/core/copy.h"
#include "lathe/core/error.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/join.h"

namespace lathe::data {
namespace {

/// Uniform in (0, 1]: never 0, so that it has a logarithm.
double positive_uniform(Random& random) { return 1.0 - static_cast<double>(random.uniform()); }

double draw_normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(positive_uniform(random)));
  return radius * std::cos(2 * std::numbers::pi * static_cast<double>(random.uniform()));
}

/// The logarithm of a draw from Gamma(alpha, 1). For small alpha the draw itself would underflow.
double draw_log_gamma(double alpha, Random& random) {
  if (alpha < 1)
    return draw_log_gamma(alpha + 1, random) + std::log(positive_uniform(random)) / alpha;
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double z = draw_normal(random), v = std::pow(1 + c * z, 3);
    if (1 + c * z <= 0) continue;
    if (std::log(positive_uniform(random)) < 0.5 * z * z + d - d * v + d * std::log(v))
      return std::log(d * v);
  }
}

/// Rows moved by one: row n is x[n-1].
Tensor rolled(const Tensor& x) {
  const int64_t n = x.dim(0);
  return n < 2 ? x : cat({x.narrow(0, n - 1, 1), x.narrow(0, 0, n - 1)});
}

void check(const char* name, const Tensor& x, const Tensor& y, double alpha) {
  LATHE_CHECK(ValueError, alpha > 0 && std::isfinite(alpha), name,
              ": alpha must be positive and finite, got ", alpha);
  LATHE_CHECK(ShapeError, x.ndim() >= 1 && y.ndim() >= 1 && x.dim(0) == y.dim(0), name,
              ": x and y must have one entry for each sample (x: ", x, ", y: ", y, ")");
}

}  // namespace

double draw_beta(double alpha, Random& random) {
  const double a = draw_log_gamma(alpha, random), b = draw_log_gamma(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

Mixed mixup(const Tensor& x, const Tensor& y, double alpha, Key key) {
  check("mixup", x, y, alpha);
  LATHE_CHECK(DTypeError, is_floating(x.dtype()), "mixup: x must be floating (x: ", x, ")");
  Random random = key.random(kMixStream);
  const double lambda = draw_beta(alpha, random);
  return {add(mul(x, lambda), mul(rolled(x), 1 - lambda)), y, rolled(y), lambda};
}

Mixed cutmix(const Tensor& x, const Tensor& y, double alpha, Key key) {
  check("cutmix", x, y, alpha);
  LATHE_CHECK(ShapeError, x.ndim() == 4 && x.dim(2) > 0 && x.dim(3) > 0,
              "cutmix: x must be [N,C,H,W] (x: ", x, ")");
  Random random = key.random(kMixStream);
  const double half = 0.5 * std::sqrt(1 - draw_beta(alpha, random));
  const int64_t height = x.dim(2), width = x.dim(3);
  struct Span {
    int64_t first, length;
  };
  const auto cut = [&](int64_t side) {
    const auto center = static_cast<int64_t>(random.below(static_cast<uint64_t>(side)));
    const auto reach = static_cast<int64_t>(half * static_cast<double>(side));
    const int64_t first = std::max<int64_t>(center - reach, 0);
    return Span{first, std::min(center + reach, side) - first};
  };
  const Span rows = cut(height), columns = cut(width);

  const auto part = [&](const Tensor& t) {
    return t.narrow(2, rows.first, rows.length).narrow(3, columns.first, columns.length);
  };
  const Tensor mixed = x.clone();
  copy_values(part(mixed), part(rolled(x)));
  const auto replaced = static_cast<double>(rows.length * columns.length);
  return {mixed, y, rolled(y), 1 - replaced / static_cast<double>(height * width)};
}

}  // namespace lathe::data
