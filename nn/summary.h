// A table of a model's modules with their shapes, parameters and multiply-adds.
//   std::cout << nn::summary(model, {1, 3, 32, 32});
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "lathe/nn/module.h"

namespace lathe::nn {

/// How many of the parameters of a module and its children require a gradient.
enum class Trainable { kNoParameters, kAll, kSome, kNone };

struct SummaryRow {
  std::string name, type;  // "layer1.0.conv1", "Conv2d"
  int depth;               // 0: the model itself
  bool leaf;               // has no children
  Shape kernel;            // rows and columns of a convolution's or pooling's window, or empty
  Shape input, output;     // first input and output of the last call; empty if never called
  bool called;
  int64_t parameters;  // elements of its own parameters, without its children's
  int64_t macs;        // its own multiply-adds, over all calls
  Trainable trainable;
};

struct Summary {
  std::vector<SummaryRow> rows;  // parents first
  int64_t parameters = 0, trainable = 0;
  int64_t macs = 0;  // of one forward; 0 if no module counts them (Module::macs())
  int64_t input_bytes = 0, parameter_bytes = 0;
  // Results of all leaf modules: roughly what a forward in training keeps, without gradients.
  int64_t output_bytes = 0;
  // Forward and backward pass as torchinfo counts them: the results of the leaf modules that have
  // parameters, and the same again for the gradients of these results.
  int64_t pass_bytes = 0;

  /// Input, pass and parameters: torchinfo's "estimated total size". Optimisers need more.
  int64_t total_bytes() const { return input_bytes + pass_bytes + parameter_bytes; }
};

/// Runs the model once on zeros of shape `input`, in evaluation mode and without gradients. The
/// zeros have the dtype and device of the model's first parameter. The call leaves the model
/// unchanged.
/// throws: what the model's forward() throws.
LATHE_API Summary summary(Module& model, const Shape& input);

/// Like summary() with a shape, for a model of any signature. `run` calls the model once:
///   nn::summary(model, [&] { model(source, target); });
LATHE_API Summary summary(Module& model, FunctionRef<void()> run);

/// The table and the totals as text. If the table would be wider than `width` characters, columns
/// are left out: first trainable, then kernel, input and the share of parameters. With 0 all
/// columns stay.
LATHE_API std::string summary_text(const Summary& summary, int width = 0);

/// Writes summary_text() with all columns.
LATHE_API std::ostream& operator<<(std::ostream& out, const Summary& summary);

/// The number of elements of all parameters.
LATHE_API int64_t count_parameters(const Module& model);

}  // namespace lathe::nn
