// Derivatives of numbers: a graph with one node per number. No tensor, no view, no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lathe::programs {

using Number = int;  // a node of Scalars
using Numbers = std::vector<Number>;

class Scalars {
 public:
  Number constant(double value);
  /// Something to differentiate by.
  Number variable(double value);
  Number add(Number a, Number b);
  Number mul(Number a, Number b);
  /// `value`, with a's derivative: a result that a tensor holds, or a number that was written over
  /// without a record. It is a variable where `a` is a constant.
  Number same(Number a, double value);
  /// slope * a + (value - slope * a) with a constant slope: relu, abs, clamp.
  Number bend(Number a, double value, double slope);

  double value(Number n) const { return nodes_[at(n)].value; }
  bool is_constant(Number n) const { return nodes_[at(n)].constant; }

  /// d(sum of weights * outputs)/d(targets). As constants, unless they are to be differentiated
  /// again.
  Numbers gradient(const Numbers& outputs, const Numbers& weights, const Numbers& targets,
                   bool again);

  /// False once a sum of magnitudes has passed 2^40: far beyond, f64 would round.
  bool exact() const { return exact_; }

 private:
  struct Node {
    double value;
    double reach;  // |value| or more: every number that adds up to it, without signs
    bool constant;
    Number from[2];   // what it is made of; -1: nothing
    Number slope[2];  // its derivatives
  };

  static size_t at(Number n) { return static_cast<size_t>(n); }
  Number push(const Node& node);

  std::vector<Node> nodes_;
  bool exact_ = true;
};

}  // namespace lathe::programs
