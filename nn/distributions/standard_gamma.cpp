// Samples of the gamma distribution. Contract: standard_gamma.h.
#include "lathe/nn/distributions/standard_gamma.h"

#include <cmath>
#include <numbers>

#include "lathe/autograd/record.h"
#include "lathe/core/random/philox.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/views.h"

namespace lathe::distributions {

namespace {

// One counter for the power below alpha = 1, two for each attempt. An attempt fails less often than
// once in 20 times, so all 15 fail once in 10^19 samples.
constexpr uint64_t kCounters = 31;

/// The counters of one element, as two uniform numbers of 53 bits in (0, 1] each.
struct Uniforms {
  double first, second;
};
Uniforms uniforms_of(Generator::State at, uint64_t counter) {
  const Philox4x32 w = philox4x32_10(at.seed, at.offset + counter, 0);
  const auto uniform = [](uint32_t high, uint32_t low) {
    const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
    return static_cast<double>(bits + 1) * 0x1p-53;
  };
  return {uniform(w.v[0], w.v[1]), uniform(w.v[2], w.v[3])};
}

double draw_log_gamma(double alpha, Generator::State at) {
  double log_scale = 0;
  if (alpha < 1) {  // a sample for alpha + 1, times a power of a uniform number
    // -inf would make the quotient of two samples NaN.
    constexpr double kLeast = -1e300;
    log_scale = std::fmax(std::log(uniforms_of(at, 0).first) / alpha, kLeast);
    alpha += 1;
  }
  const double d = alpha - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (uint64_t counter = 1; counter < kCounters; counter += 2) {
    const Uniforms u = uniforms_of(at, counter);
    const double x = std::sqrt(-2 * std::log(u.first)) * std::cos(2 * std::numbers::pi * u.second);
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double height = std::log(uniforms_of(at, counter + 1).first);
    if (height < 0.5 * x * x + d - d * v + d * std::log(v)) return log_scale + std::log(d * v);
  }
  return log_scale + std::log(d);
}

/// f(i) of element i of a new f64 tensor with the shape and device of `like`, made on the CPU.
template <class F>
Tensor made(const Tensor& like, F f) {
  const NoGrad off;
  const Tensor out = empty(like.shape(), {.dtype = kF64});
  double* const values = out.data<double>();
  constexpr int64_t kGrain = 64;  // some 10 us
  parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) values[i] = f(i);
  });
  return to_device(out, like.device());
}

/// x for the loops: dense on the CPU.
Tensor on_host(const Tensor& x) {
  const NoGrad off;
  return contiguous(to_device(x.detach(), kCPU));
}

/// The gradient of log x for a sample x of Gamma(alpha, 1): -(dF/dalpha) / (x density).
//
// F(x) = e^-x x^a / Γ(a) Σ t_k with t_k = x^k / (a (a + 1) … (a + k)). Its derivative by a, over
// the density, is x Σ t_k (ln x - ψ(a + k + 1)).
double log_gamma_grad(double alpha, double log_x) {
  const double x = std::exp(log_x);
  constexpr double kLarge = 1e5;  // the distribution is normal to five digits
  if (alpha > kLarge) return (x + alpha) / (2 * alpha * x);
  // ψ(alpha + 1), as special_math.h: by steps to 10, then Stirling's series.
  double psi = 0, at = alpha + 1;
  for (; at < 10; at += 1) psi -= 1 / at;
  const double z = 1 / (at * at);
  psi += std::log(at) - 0.5 / at - z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z / 240)));
  double term = 1 / alpha, sum = 0, size = 0;
  for (double k = 0;; ++k) {
    sum += term * (psi - log_x);
    size += term;
    if (k > x - alpha && term < 1e-17 * size) break;
    psi += 1 / (alpha + k + 1);
    term *= x / (alpha + k + 1);
  }
  return sum;
}

}  // namespace

Tensor log_standard_gamma(const Tensor& alpha_in, Generator* generator) {
  const profile::OpRange range("standard_gamma", {alpha_in});
  const Tensor alpha = cast(alpha_in, kF64);
  const Tensor a = on_host(alpha);
  Generator& source = generator != nullptr ? *generator : default_generator(alpha.device());
  const Generator::State start = source.reserve(kCounters * static_cast<uint64_t>(alpha.numel()));
  Tensor y = made(alpha, [&](int64_t i) {
    const auto element = static_cast<uint64_t>(i);
    const Generator::State at{start.seed, start.offset + kCounters * element};
    return draw_log_gamma(a.data<double>()[i], at);
  });
  autograd::record("standard_gamma", y, {alpha},
                   [alpha = autograd::Saved(alpha), y = autograd::SavedOutput(y)](
                       const Tensor& dy, const autograd::Needs&) {
                     LATHE_CHECK(
                         ValueError, !grad_enabled(),
                         "standard_gamma: samples of Gamma, Beta and Dirichlet have no second "
                         "derivative (alpha: ",
                         alpha.get(), ")");
                     const Tensor shape = on_host(alpha.get()), log_x = on_host(y.get());
                     const Tensor gradient = made(dy, [&](int64_t i) {
                       return log_gamma_grad(shape.data<double>()[i], log_x.data<double>()[i]);
                     });
                     return Tensors{mul(dy, gradient)};
                   });
  return y;
}

}  // namespace lathe::distributions
