// A small model, a batch that ranks divide among themselves, and values as text, for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/copy.h"
#include "lathe/core/random/generator.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/module.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/random.h"
#include "lathe/ops/unary.h"
#include "ranks.h"

namespace lathe::test {

struct Net : nn::Module {
  explicit Net(int64_t width) : a(*this, "a", 6, width), b(*this, "b", width, 3) {
    to(kF64);
    to(device());
  }
  Tensor forward(const Tensor& x) override { return b(relu(a(x))); }
  nn::Linear a, b;
};

/// Weights that are the same in every call, on every device.
inline void set_weights(const nn::Module& net) {
  manual_seed(1);
  const NoGrad off;
  for (const Tensor& p : net.parameters())
    copy_values(p, randn(p.shape(), {.dtype = p.dtype()}) * 0.5);
}

/// Part `rank` of a batch of 16 that is the same for any number of ranks.
inline std::pair<Tensor, Tensor> part_of_batch(int64_t rank, int64_t world_size) {
  manual_seed(5);
  const Tensor x = randn({16, 6}, {.dtype = kF64}), y = randn({16, 3}, {.dtype = kF64});
  const int64_t part = 16 / world_size, first = part * rank;
  return {x.slice(0, first, first + part).to(device()),
          y.slice(0, first, first + part).to(device())};
}

/// Every value of the tensors, in 17 digits.
inline std::string values_of(const Tensors& tensors) {
  std::string out;
  char number[32];
  for (const Tensor& t : tensors) {
    for (const double value : t.to(kF64).to_vector<double>()) {
      std::snprintf(number, sizeof number, "%.17g ", value);
      out += number;
    }
  }
  return out;
}

inline std::vector<double> numbers_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<double>(in), {}};
}

/// The largest |a[i] - b[i]|; infinite for lists of different length or without a number.
inline double farthest(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.empty()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}

/// The gradients that exist.
inline Tensors grads_of(const nn::Module& net) {
  Tensors out;
  for (const Tensor& p : net.parameters()) {
    if (p.grad().defined()) out.push_back(p.grad());
  }
  return out;
}

}  // namespace lathe::test
