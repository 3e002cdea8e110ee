// A model at a glance: what each module computes, holds and costs.
//   std::cout << nn::summary(model, {1, 3, 32, 32});
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "lathe/nn/module.h"

namespace lathe::nn {

/// Which of a module's parameters require a gradient, its children's included.
enum class Trainable { kNoParameters, kAll, kSome, kNone };

struct SummaryRow {
  std::string name, type;  // "layer1.0.conv1", "Conv2d"
  int depth;               // 0: the model itself
  bool leaf;               // has no children
  Shape kernel;            // rows and columns of a convolution's or a pooling's window, or empty
  Shape input, output;     // the first ones of its last call; empty if it was never called
  bool called;
  int64_t parameters;  // elements of its own parameters, without its children's
  int64_t macs;        // its own multiply-adds, over all calls
  Trainable trainable;
};

struct Summary {
  std::vector<SummaryRow> rows;  // parents first
  int64_t parameters = 0, trainable = 0;
  int64_t macs = 0;  // of one forward
  int64_t input_bytes = 0, parameter_bytes = 0;
  // Results of all leaf modules: about what training keeps per forward, gradients apart.
  int64_t output_bytes = 0;
  // Forward and backward pass as torchinfo counts it: the results of the leaf modules that have
  // parameters, and as much again for their gradients.
  int64_t pass_bytes = 0;

  /// Input, pass and parameters: torchinfo's "estimated total size". Optimisers need more.
  int64_t total_bytes() const { return input_bytes + pass_bytes + parameter_bytes; }
};

/// Runs the model once on zeros of shape `input` (with the dtype and device of its first
/// parameter), in evaluation mode and without gradients. The model is as before afterwards.
/// throws: what its forward throws.
LATHE_API Summary summary(Module& model, const Shape& input);

/// The same for a model of any signature. `run` calls the model once, with inputs of its own:
///   nn::summary(model, [&] { model(source, target); });
LATHE_API Summary summary(Module& model, FunctionRef<void()> run);

/// The table, then the totals. Where a line of the table would be wider than `width` columns, some
/// columns are left out: first trainable, then kernel, input and the share of parameters. 0: none.
LATHE_API std::string summary_text(const Summary& summary, int width = 0);

/// The same with all columns.
LATHE_API std::ostream& operator<<(std::ostream& out, const Summary& summary);

/// Elements of all parameters.
LATHE_API int64_t count_parameters(const Module& model);

}  // namespace lathe::nn
