// RecordedStep: one forward and backward pass of a model with what autograd recorded of it.
// graph_dot.h draws it; op_formulas.h has the formulas of its ops.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lathe/autograd/recorded_graph.h"
#include "lathe/core/config.h"
#include "lathe/core/debug/value_ranges.h"
#include "lathe/nn/module.h"

namespace lathe::report {

struct RecordedLeaf {
  std::string name;  // "layer1.0.conv1.weight"; "" if the model does not know it
  Shape shape;
  DType dtype = DType::kF32;
  std::optional<double> gradient_norm = {};  // 2-norm of its gradient; absent without one
};

struct RecordedStep {
  // For people and for the picture; whoever records the step may set them.
  std::string model;  // its name
  std::string data;   // "a synthetic batch", "the first batch of cifar10"
  Shape input;        // of the batch
  autograd::RecordedGraph graph;
  std::vector<RecordedLeaf> leaves;       // graph.leaves, in the same order
  std::vector<debug::LayerRange> ranges;  // if they were asked for
  std::string ranges_table;               // the same as text
  double loss = 0;
};

/// Computes a loss, 0-d, and its gradients, which the parameters keep. Waits for a GPU.
///   ranges  also notes the range of values of each layer (core/debug/value_ranges.h)
/// throws: what `loss` and the backward pass throw.
LATHE_API RecordedStep record_step(const nn::Module& model, const std::function<Tensor()>& loss,
                                   bool ranges = false);

/// "f32[128,3,32,32]".
LATHE_API std::string tensor_text(DType dtype, const Shape& shape);

/// The path of a layer without the name of the model, "layer1.0.conv1"; of the model its name.
LATHE_API std::string short_layer(const std::string& path);

/// "64.0 KiB", "1.50 MiB", "12 B".
LATHE_API std::string size_text(int64_t bytes);

/// 2-norm of all leaves' gradients together.
LATHE_API double gradient_norm(const RecordedStep& step);

}  // namespace lathe::report
