// See scalars.h.
#include "scalars.h"

#include <algorithm>
#include <cmath>

namespace lathe::programs {

Number Scalars::push(const Node& node) {
  if (!(node.reach <= 0x1p40)) exact_ = false;
  nodes_.push_back(node);
  return static_cast<Number>(nodes_.size()) - 1;
}

Number Scalars::constant(double value) {
  return push({value, std::fabs(value), true, {-1, -1}, {-1, -1}});
}

Number Scalars::variable(double value) {
  return push({value, std::fabs(value), false, {-1, -1}, {-1, -1}});
}

Number Scalars::add(Number a, Number b) {
  const Node p = nodes_[at(a)], q = nodes_[at(b)];
  Node sum{p.value + q.value, p.reach + q.reach, p.constant && q.constant, {-1, -1}, {-1, -1}};
  if (sum.constant) return push(sum);
  const Number one = constant(1);
  if (!p.constant) sum.from[0] = a, sum.slope[0] = one;
  if (!q.constant) sum.from[1] = b, sum.slope[1] = one;
  return push(sum);
}

Number Scalars::mul(Number a, Number b) {
  const Node p = nodes_[at(a)], q = nodes_[at(b)];
  Node product{p.value * q.value, p.reach * q.reach, p.constant && q.constant, {-1, -1}, {-1, -1}};
  if (!p.constant) product.from[0] = a, product.slope[0] = b;
  if (!q.constant) product.from[1] = b, product.slope[1] = a;
  return push(product);
}

Number Scalars::same(Number a, double value) {
  const Node p = nodes_[at(a)];
  Node node{value, std::max(p.reach, std::fabs(value)), false, {-1, -1}, {-1, -1}};
  if (!p.constant) node.from[0] = a, node.slope[0] = constant(1);
  return push(node);
}

Number Scalars::bend(Number a, double value, double slope) {
  const Node p = nodes_[at(a)];
  if (p.constant) return constant(value);
  const Node node{
      value, std::max(p.reach, std::fabs(value)), false, {a, -1}, {constant(slope), -1}};
  return push(node);
}

Numbers Scalars::gradient(const Numbers& outputs, const Numbers& weights, const Numbers& targets,
                          bool again) {
  const size_t before = nodes_.size();
  Numbers adjoint(before, -1);
  const auto give = [&](Number n, Number amount) {
    Number& sum = adjoint[at(n)];
    sum = sum < 0 ? amount : add(sum, amount);
  };
  for (size_t i = 0; i < outputs.size(); ++i) give(outputs[i], weights[i]);
  for (Number n = static_cast<Number>(before) - 1; n >= 0; --n) {
    if (adjoint[at(n)] < 0) continue;
    const Node node = nodes_[at(n)];
    for (int side = 0; side < 2; ++side) {
      if (node.from[side] < 0) continue;
      const Node slope = nodes_[at(node.slope[side])];
      if (slope.constant && slope.value == 0) continue;
      const bool is_one = slope.constant && slope.value == 1;
      give(node.from[side], is_one ? adjoint[at(n)] : mul(adjoint[at(n)], node.slope[side]));
    }
  }
  Numbers result;
  for (const Number n : targets) {
    const Number g = adjoint[at(n)];
    result.push_back(g < 0 ? constant(0) : g);
  }
  if (again) return result;
  std::vector<double> values;
  for (const Number g : result) values.push_back(value(g));
  nodes_.resize(before);
  for (size_t i = 0; i < values.size(); ++i) result[i] = constant(values[i]);
  return result;
}

}  // namespace lathe::programs
