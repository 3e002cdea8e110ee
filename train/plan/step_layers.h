// Where the time of a recorded training step went: its convolutions layer by layer and pass by pass
// beside the least time of each (Roofline), and the shares of everything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/hooks/record.h"
#include "lathe/ops/conv/conv_pass.h"
#include "lathe/train/plan/conv_layers.h"

namespace lathe::plan {

/// "forward", "backward_input", "backward_weight".
LATHE_API const char* name_of(ConvPass pass);

/// One pass of the layers that a recording cannot tell apart: their tensors have the same shapes.
/// So they have the same number of operations and of bytes, too.
struct LayerTime {
  const ConvLayer* layer;  // the first of them
  ConvPass pass;
  int64_t count = 0;           // how many layers of the model
  int64_t calls = 0;           // in all steps
  double seconds = 0;          // of all calls, with their copies into another layout
  double reorder_seconds = 0;  // these copies alone
};

/// A kind of work, and its time without that of other kinds inside it.
struct StepPart {
  std::string name;
  double seconds = 0;  // of all steps
};

struct StepTimes {
  std::vector<LayerTime> layers;  // in the order of `layers`, passes as above; those that ran
  std::vector<StepPart> parts;    // convolution, reorder, batch norm, optimiser, sum of gradients,
                                  // other ops, no op
  double seconds = 0;             // of all steps: the sum of the parts
};

/// Adds up a recording with shapes of the CPU. `layers` are those of the model at the step's input,
/// and must outlive the result.
/// A call belongs to a layer if its pass, the shapes of its inputs, its number of operations and
/// the size of its result fit. "sum of gradients" is what the backward pass does around the ops of
/// a convolution's gradient: it adds the result to the gradient that another op made of the same
/// tensor.
LATHE_API StepTimes step_times(const profile::Recording& recording,
                               const std::vector<ConvLayer>& layers);

}  // namespace lathe::plan
