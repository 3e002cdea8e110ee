// The cases of golden_torch_samples.txt; make_torch_samples.py says how to read a line.
#pragma once

#include <string>
#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/graph/pt2/pt2_schema.h"

namespace lathe::testing {

using Numbers = std::vector<double>;

/// A tensor that PyTorch computed: its type, and the numbers that stand for its elements.
struct Summary {
  std::string kind;  // "f32[2,3]"
  Numbers numbers;
};

struct TorchSample {
  std::string name;  // "add f32 3"
  jit::pt2::Graph graph;
  Tensors inputs;                     // on the CPU
  std::vector<size_t> with_gradient;  // places among the inputs
  std::vector<Summary> results;
  std::vector<Numbers> gradients;  // of the inputs in with_gradient
};

/// throws: ValueError, DataError for a line that is not as it should be.
TorchSample parse_torch_sample(const std::string& line);

/// The type as in Summary::kind.
std::string kind_of(const Tensor& t);
/// The numbers that stand for the tensor's elements, and how large what each sums up is: the root
/// of the sum of squares.
struct Sums {
  Numbers numbers, sizes;
};
Sums sums_of(const Tensor& t);

}  // namespace lathe::testing
