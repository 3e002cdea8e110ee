// Initial values of parameters: fans, and the scales of the distributions.
#include "lathe/nn/init.h"

#include <cmath>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/random.h"

namespace lathe::nn::init {

Fans fans_of(const Shape& shape) {
  LATHE_CHECK(ShapeError, shape.size() >= 2, "init: a shape needs 2 dimensions to have a fan, got ",
              shape);
  int64_t kernel = 1;
  for (int d = 2; d < shape.size(); ++d) kernel *= shape[d];
  return {shape[1] * kernel, shape[0] * kernel};
}

namespace {

constinit thread_local bool t_skipping = false;

double kaiming_std(const Tensor& w, const KaimingOptions& options) {
  const Fans fans = fans_of(w.shape());
  const int64_t fan = options.mode == FanMode::kFanIn ? fans.in : fans.out;
  return std::sqrt(2 / (1 + options.slope * options.slope)) / std::sqrt(static_cast<double>(fan));
}

double xavier_std(const Tensor& w, const XavierOptions& options) {
  const Fans fans = fans_of(w.shape());
  return options.gain * std::sqrt(2 / static_cast<double>(fans.in + fans.out));
}

}  // namespace

Skip::Skip() : outer_(std::exchange(t_skipping, true)) {}
Skip::~Skip() { t_skipping = outer_; }
bool Skip::on() { return t_skipping; }

// U(±a) has standard deviation a / sqrt(3).
const Tensor& kaiming_uniform_(const Tensor& w, const KaimingOptions& options) {
  const double bound = std::sqrt(3.0) * kaiming_std(w, options);
  return init::uniform_(w, -bound, bound, options.generator);
}
const Tensor& kaiming_normal_(const Tensor& w, const KaimingOptions& options) {
  return init::normal_(w, 0, kaiming_std(w, options), options.generator);
}
const Tensor& xavier_uniform_(const Tensor& w, const XavierOptions& options) {
  const double bound = std::sqrt(3.0) * xavier_std(w, options);
  return init::uniform_(w, -bound, bound, options.generator);
}
const Tensor& xavier_normal_(const Tensor& w, const XavierOptions& options) {
  return init::normal_(w, 0, xavier_std(w, options), options.generator);
}

const Tensor& uniform_(const Tensor& w, double low, double high, Generator* generator) {
  const NoGrad off;
  return w.numel() == 0 || Skip::on() ? w : lathe::uniform_(w, low, high, generator);
}
const Tensor& normal_(const Tensor& w, double mean, double std, Generator* generator) {
  const NoGrad off;
  return w.numel() == 0 || Skip::on() ? w : lathe::normal_(w, mean, std, generator);
}
const Tensor& constant_(const Tensor& w, Scalar value) {
  const NoGrad off;
  return w.fill_(value);
}
const Tensor& zeros_(const Tensor& w) { return init::constant_(w, 0); }
const Tensor& ones_(const Tensor& w) { return init::constant_(w, 1); }

Tensor uniform_fan_in(const Shape& shape, int64_t fan_in) {
  const double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  return init::uniform_(empty(shape), -bound, bound);
}

Tensor left_open(const Shape& shape) {
  if (!Skip::on()) default_generator(kCPU).reserve(Generator::counters_for(numel_of(shape)));
  return empty(shape);
}

}  // namespace lathe::nn::init
