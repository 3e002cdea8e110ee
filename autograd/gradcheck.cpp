// gradcheck and gradgradcheck: finite differences against the engine, without ops.
#include "lathe/autograd/gradcheck.h"

#include <cmath>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"

namespace lathe {

namespace {

using Function = std::function<Tensor(const Tensors&)>;

/// An output's weight in the checked sum. The weights differ, have both signs, and are not near 0.
double weight_of(int64_t i) {
  const double spread = std::fmod(static_cast<double>(i) * 0.6180339887498949, 1.0);
  return (i % 2 == 0 ? 1.0 : -1.0) * (0.5 + spread);
}

/// A number of the direction of the fast mode. It is unlike weight_of: with w for both, a gradient
/// that is off by A with w'Aw = 0 would pass, such as one that takes a matrix for its transpose.
double direction_of(int64_t i) {
  const double spread = std::fmod(static_cast<double>(i) * 0.7548776662466927 + 0.3, 1.0);
  return (i % 3 == 0 ? 1.0 : -1.0) * (0.5 + spread);
}

/// sum of weight_of(i) * y[i], in double.
double weighed_sum(const Tensor& y) {
  const std::vector<double> values = y.to_vector<double>();
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += weight_of(static_cast<int64_t>(i)) * values[i];
  }
  return sum;
}

Tensor weights_like(const Tensor& y) {
  std::vector<double> weights(static_cast<size_t>(y.numel()));
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = weight_of(static_cast<int64_t>(i));
  const Tensor out = empty(y.shape(), {.dtype = y.dtype(), .device = y.device()});
  if (!weights.empty()) copy_values(out, from_blob(weights.data(), y.shape()));
  return out;
}

/// Copies of the inputs, in the same strides, that require grad where they are floating. The gaps
/// of a sliced input stay; overlapping elements are parted, so that each can be moved alone.
Tensors fresh_leaves(const Tensors& inputs) {
  Tensors leaves;
  for (const Tensor& input : inputs) {
    if (!input.defined() || !is_floating(input.dtype())) {
      leaves.push_back(input);
      continue;
    }
    LATHE_CHECK(DTypeError, input.dtype() == kF64, "gradcheck: floating inputs must be f64, got ",
                input);
    const Tensor leaf = has_overlap(input) ? empty_like(input)
                                           : empty_strided(input.shape(), input.strides(),
                                                           input.dtype(), input.device());
    copy_values(leaf, input);
    leaf.requires_grad_();
    leaves.push_back(leaf);
  }
  return leaves;
}

bool is_checked(const Tensor& t) { return t.defined() && t.requires_grad(); }

/// The position of linear index i in `shape`.
Dims position_of(int64_t i, const Shape& shape) {
  Dims at = shape;
  for (int d = shape.size() - 1; d >= 0; --d) {
    at[d] = i % shape[d];
    i /= shape[d];
  }
  return at;
}

/// One number of t as a tensor without dimensions, on any device.
Tensor element(const Tensor& t, const Dims& at) {
  int64_t offset = t.offset();
  for (int d = 0; d < t.ndim(); ++d) offset += at[d] * t.strides()[d];
  return alias(t, {}, {}, offset);
}

struct Worst {
  double excess = 0;
  std::string text;
};

void compare(double got, double numeric, const GradcheckOptions& options, const Tensor& x,
             const std::function<std::string()>& place, Worst& worst) {
  const double excess =
      std::fabs(got - numeric) - (options.atol + options.rtol * std::fabs(numeric));
  if (!(excess > worst.excess) && !std::isnan(excess)) return;
  worst = {std::isnan(excess) ? HUGE_VAL : excess,
           concat(place(), ": analytic ", got, ", numeric ", numeric, " (", x, ")")};
}

/// d sum / d x[i] for each element.
void compare_elements(const Function& f, const Tensors& leaves, size_t k,
                      const std::vector<double>& gradient, const GradcheckOptions& options,
                      Worst& worst) {
  const Tensor& x = leaves[k];
  for (int64_t i = 0; i < x.numel(); ++i) {
    const Dims at = position_of(i, x.shape());
    const Tensor value = element(x, at);
    const auto set = [&](double number) { copy_values(value, from_blob(&number, {})); };
    const double before = value.to_vector<double>()[0];
    set(before + options.step);
    const double above = weighed_sum(f(leaves));
    set(before - options.step);
    const double below = weighed_sum(f(leaves));
    set(before);
    compare(
        gradient[static_cast<size_t>(i)], (above - below) / (2 * options.step), options, x,
        [&] { return concat("input ", k, ", element ", at); }, worst);
  }
}

/// The same along one direction.
void compare_direction(const Function& f, const Tensors& leaves, size_t k,
                       const std::vector<double>& gradient, const GradcheckOptions& options,
                       Worst& worst) {
  const Tensor& x = leaves[k];
  if (x.numel() == 0) return;
  const std::vector<double> before = x.to_vector<double>();
  const auto move = [&](double step) {
    std::vector<double> values = before;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] += step * direction_of(static_cast<int64_t>(i));
    }
    copy_values(x, from_blob(values.data(), x.shape()));
  };
  move(options.step);
  const double above = weighed_sum(f(leaves));
  move(-options.step);
  const double below = weighed_sum(f(leaves));
  copy_values(x, from_blob(const_cast<double*>(before.data()), x.shape()));
  double along = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    along += gradient[i] * direction_of(static_cast<int64_t>(i));
  }
  compare(
      along, (above - below) / (2 * options.step), options, x,
      [&] { return concat("input ", k, ", along one direction"); }, worst);
}

void compare_input(const Function& f, const Tensors& leaves, size_t k, const Tensor& analytic,
                   const GradcheckOptions& options, Worst& worst) {
  const Tensor& x = leaves[k];
  const std::vector<double> gradient =
      analytic.defined() ? analytic.to_vector<double>()
                         : std::vector<double>(static_cast<size_t>(x.numel()), 0.0);
  const auto check = options.fast_mode ? compare_direction : compare_elements;
  check(f, leaves, k, gradient, options, worst);
}

/// Says where the gradients with and without create_graph differ; empty if they do not. An op may
/// have a fused pass without the graph and the same in ops with it.
std::string difference_of_graphs(const Function& f, const Tensors& leaves, const Tensor& dy) {
  const EnableGrad on;
  const auto gradient = [&](const Tensor& leaf, bool create_graph) {
    const Tensor y = f(leaves);
    const Tensors g =
        y.requires_grad()
            ? grad({y}, {leaf},
                   {.grad_outputs = {dy}, .create_graph = create_graph, .allow_unused = true})
            : Tensors(1);
    return g[0].defined() ? g[0].to_vector<double>()
                          : std::vector<double>(static_cast<size_t>(leaf.numel()), 0.0);
  };
  for (size_t k = 0; k < leaves.size(); ++k) {
    if (!is_checked(leaves[k])) continue;
    const std::vector<double> plain = gradient(leaves[k], false), graph = gradient(leaves[k], true);
    double largest = 0;
    for (const double g : plain) largest = std::max(largest, std::fabs(g));
    for (size_t i = 0; i < plain.size(); ++i) {
      if (std::isnan(plain[i]) && std::isnan(graph[i])) continue;
      if (plain[i] == graph[i] || std::fabs(plain[i] - graph[i]) <= 1e-12 * (largest + 1)) continue;
      return concat("input ", k, ", element ",
                    position_of(static_cast<int64_t>(i), leaves[k].shape()), ": ", plain[i],
                    ", with create_graph ", graph[i], " (", leaves[k], ")");
    }
  }
  return "";
}

}  // namespace

GradReport gradcheck(const Function& f, const Tensors& inputs, const GradcheckOptions& options) {
  const Tensors leaves = fresh_leaves(inputs);
  Tensors checked;
  for (const Tensor& leaf : leaves) {
    if (is_checked(leaf)) checked.push_back(leaf);
  }
  const auto analytic = [&]() -> Tensors {
    const EnableGrad on;
    const Tensor y = f(leaves);
    if (!y.requires_grad()) return Tensors(checked.size());
    return grad({y}, checked, {.grad_outputs = {weights_like(y)}, .allow_unused = true});
  };
  const Tensors first = analytic(), second = analytic();
  Worst worst;
  const NoGrad off;
  size_t at = 0;
  for (size_t k = 0; k < leaves.size(); ++k) {
    if (!is_checked(leaves[k])) continue;
    const Tensor &a = first[at], &b = second[at];
    if (a.defined() != b.defined()) {
      return {false, concat("input ", k, ": of two backward passes only one has a gradient")};
    }
    if (a.defined() && a.to_vector<double>() != b.to_vector<double>()) {
      const std::vector<double> p = a.to_vector<double>(), q = b.to_vector<double>();
      for (size_t i = 0; i < p.size(); ++i) {
        if (p[i] != q[i] && !(std::isnan(p[i]) && std::isnan(q[i]))) {
          return {false,
                  concat("input ", k, ": two backward passes differ, ", p[i], " and ", q[i])};
        }
      }
    }
    compare_input(f, leaves, k, a, options, worst);
    ++at;
  }
  return {worst.text.empty(), worst.text};
}

GradReport gradgradcheck(const Function& f, const Tensors& inputs,
                         const GradcheckOptions& options) {
  const Tensors leaves = fresh_leaves(inputs);
  Tensor dy;
  {
    const NoGrad off;
    dy = weights_like(f(leaves));
  }
  const std::string differs = difference_of_graphs(f, leaves, dy);
  if (!differs.empty()) return {false, differs};
  // Checks each input's gradient on its own: joining the gradients of all inputs into one output
  // would need an op.
  for (size_t k = 0; k < leaves.size(); ++k) {
    if (!is_checked(leaves[k])) continue;
    const auto gradient_of_k = [&](const Tensors& in) {
      const EnableGrad on;
      const Tensors xs(in.begin(), in.end() - 1);
      const Tensor y = f(xs);
      const Tensors g = grad(
          {y}, {xs[k]}, {.grad_outputs = {in.back()}, .create_graph = true, .allow_unused = true});
      if (g[0].defined()) return g[0];
      const Tensor zero = empty_like(xs[k]);
      fill_values(zero, 0);
      return zero;
    };
    Tensors with_dy = inputs;
    with_dy.push_back(dy);
    GradReport report = gradcheck(gradient_of_k, with_dy, options);
    if (!report.ok) return {false, concat("gradient of input ", k, ": ", report.text)};
  }
  return {};
}

}  // namespace lathe
