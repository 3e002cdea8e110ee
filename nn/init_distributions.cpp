// init::trunc_normal_ and init::orthogonal_: values that are computed on the CPU, then copied.

// Note [Names of header-only libraries] in core/json.h.
#define Eigen EigenForBaseline
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numbers>

#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/init.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/random.h"
#include "lathe/ops/views.h"

namespace lathe::nn::init {

namespace {

/// P(N(0, 1) <= z).
double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::numbers::sqrt2); }

/// The z in [low, high] with normal_cdf(z) = p: Newton's method, inside an interval that halves
/// where it would leave it.
double inverse_normal_cdf(double p, double low, double high) {
  double z = std::clamp(0.0, low, high);
  for (int step = 0; step < 100; ++step) {
    const double error = normal_cdf(z) - p;
    (error < 0 ? low : high) = z;
    const double density = std::exp(-0.5 * z * z) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    double next = z - error / density;
    if (!(next > low && next < high)) next = low + (high - low) / 2;
    if (std::abs(next - z) <= 1e-15 * std::abs(z)) return next;
    z = next;
  }
  return z;
}

/// N(0, 1) under the condition that low <= z <= high, from a uniform number in [0, 1).
class ConditionalNormal {
 public:
  ConditionalNormal(double low, double high)
      // In the upper tail, probabilities near 1 have few digits; the lower one is its mirror image.
      : mirrored_(low > 0),
        low_(mirrored_ ? -high : low),
        high_(mirrored_ ? -low : high),
        first_(normal_cdf(low_)),
        last_(normal_cdf(high_)) {}
  bool is_possible() const { return first_ < last_; }
  double operator()(double uniform) const {
    const double z = inverse_normal_cdf(first_ + uniform * (last_ - first_), std::max(low_, -40.0),
                                        std::min(high_, 40.0));
    return mirrored_ ? -z : z;
  }

 private:
  bool mirrored_;
  double low_, high_, first_, last_;
};

}  // namespace

const Tensor& trunc_normal_(const Tensor& w, const TruncNormalOptions& o) {
  const NoGrad off;
  check_floating("trunc_normal_", w);
  LATHE_CHECK(ValueError, o.std > 0 && o.low < o.high,
              "trunc_normal_: expected std > 0 and low < high, got std ", o.std, ", low ", o.low,
              ", high ", o.high);
  const double from = (o.low - o.mean) / o.std, to = (o.high - o.mean) / o.std;
  const ConditionalNormal conditional(from, to);
  LATHE_CHECK(ValueError, conditional.is_possible(), "trunc_normal_: no number of N(", o.mean, ", ",
              o.std, ") lies in [", o.low, ", ", o.high, "]");
  if (w.numel() == 0 || Skip::on()) return w;
  // The inverse costs some hundred times as much as a normal number: if nearly all of those lie
  // inside, it is kept for the others.
  const bool wide = from <= -4 && to >= 4;
  const Tensor values = wide ? randn(w.shape(), {.dtype = kF64}, o.generator)
                             : rand(w.shape(), {.dtype = kF64}, o.generator);
  double* const v = values.data<double>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    double z = v[i];
    if (!wide) {
      z = conditional(z);
    } else if (z < from || z > to) {
      z = conditional(rand({1}, {.dtype = kF64}, o.generator).item<double>());
    }
    v[i] = std::clamp(o.mean + o.std * z, o.low, o.high);
  }
  return copy_(w, values);
}

const Tensor& orthogonal_(const Tensor& w, const OrthogonalOptions& o) {
  const NoGrad off;
  check_floating("orthogonal_", w);
  LATHE_CHECK(ShapeError, w.ndim() >= 2, "orthogonal_: expected at least 2 dimensions (w: ", w,
              ")");
  if (w.numel() == 0 || Skip::on()) return w;
  const int64_t rows = w.dim(0), columns = w.numel() / rows;
  const int64_t longer = std::max(rows, columns), shorter = std::min(rows, columns);
  const Tensor normal = randn({longer, shorter}, {.dtype = kF64}, o.generator);
  const Eigen::Map<Eigen::MatrixXd> matrix(normal.data<double>(), longer, shorter);
  const Eigen::HouseholderQR<Eigen::MatrixXd> qr(matrix);
  Eigen::MatrixXd q = qr.householderQ() * Eigen::MatrixXd::Identity(longer, shorter);
  for (int64_t c = 0; c < shorter; ++c) {
    q.col(c) *= qr.matrixQR()(c, c) < 0 ? -o.gain : o.gain;
  }
  // q is column-major [longer, shorter]: in memory, [shorter, longer] with orthonormal rows.
  const Tensor values = from_blob(q.data(), {shorter, longer});
  return copy_(w, reshape(rows <= columns ? values : transpose(values, 0, 1), w.shape()));
}

}  // namespace lathe::nn::init
