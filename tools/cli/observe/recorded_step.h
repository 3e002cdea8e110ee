// RecordedStep: one forward and backward pass of a model with what autograd recorded of it, for
// `explain` and `graph`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lathe/autograd/recorded_graph.h"
#include "lathe/core/debug/value_ranges.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

struct RecordedLeaf {
  std::string name;  // "layer1.0.conv1.weight"; "" if the model does not know it
  Shape shape;
  DType dtype = DType::kF32;
  std::optional<double> gradient_norm = {};  // 2-norm of its gradient; absent without one
};

struct RecordedStep {
  std::string model;  // its name
  std::string data;   // "a synthetic batch", "the first batch of cifar10"
  Shape input;        // of the batch
  autograd::RecordedGraph graph;
  std::vector<RecordedLeaf> leaves;       // graph.leaves, in the same order
  std::vector<debug::LayerRange> ranges;  // with --ranges
  std::string ranges_table;               // the same as text
  double loss = 0;
};

/// Makes the model, with the weights of --weights if there are some, runs it on a batch of
/// --dataset, or without one on normal random numbers, and takes the cross-entropy's gradients.
/// Fills in the settings that are open; the model is that of the weights, which a line on stderr
/// says.
/// throws: UsageError, CommandError (kData) and others as those of `find-lr`.
RecordedStep record_step(Settings& settings);

/// "f32[128,3,32,32]".
std::string tensor_text(DType dtype, const Shape& shape);

/// The path of a layer without the name of the model, "layer1.0.conv1"; of the model its name.
std::string short_layer(const std::string& path);

/// "64.0 KiB", "1.50 MiB", "12 B".
std::string size_text(int64_t bytes);

/// 2-norm of all leaves' gradients together.
double gradient_norm(const RecordedStep& step);

}  // namespace lathe::cli
