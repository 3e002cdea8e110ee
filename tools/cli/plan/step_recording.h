// StepRecording: what a small training step does on the CPU, op by op, with the memory that it
// takes. Everything in it grows with the batch in a straight line, so two of them foretell a step
// of any batch (step_ledger.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "lathe/core/dtype.h"
#include "lathe/core/function_ref.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/shape.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

struct TensorNote {
  DType dtype = DType::kF32;
  Shape shape;
  int64_t bytes = 0;       // of its values, each place in memory once
  bool parameter = false;  // a leaf that requires grad
  int64_t block = -1;      // its memory, as in MemoryNote; -1: older than the recording
};

/// A range of an op, of the gradient of one, or of the optimiser.
struct OpNote {
  std::string name;
  profile::Kind kind = profile::Kind::kOp;
  int parent = -1;     // the range around it; -1: none
  std::string layer;   // "ResNet.layer1.0.conv1"; of a gradient that of its op
  bool wraps = false;  // one of its name ran inside it, and is what it does
  uint64_t node = 0;   // the autograd node that it recorded, or whose gradient it is; 0: none
  std::vector<TensorNote> inputs = {}, outputs = {};  // of a gradient only outputs: its results
  std::vector<TensorNote> operands = {};              // inputs of the node, undefined ones too
  std::vector<size_t> gradient_of = {};               // of a gradient: the inputs that got one
};

/// Memory that was taken or given back.
struct MemoryNote {
  int64_t block = 0;  // counts from 0; giving back names the same
  int64_t bytes = 0;
  bool taken = false;
  int op = -1;             // the innermost range then
  bool workspace = false;  // scratch memory of a library, MemoryTag::kWorkspace
};

struct StepRecording {
  int64_t batch = 0;
  bool channels_last = false;  // --layout nhwc
  std::vector<OpNote> ops;  // in the order of their begins; parents come before what is inside them
  int first_op = 0;         // of the last step; those before made the model and earlier steps
  std::unordered_map<uint64_t, int> op_of_node;    // the op that recorded a node
  std::unordered_map<uint64_t, int> uses_of_node;  // how many gradients come to a node
  /// The block of the first gradient that came to a node. Blocks of second ones: the node's number.
  std::unordered_map<uint64_t, int64_t> first_gradients;
  std::unordered_map<int64_t, uint64_t> second_gradients;
  /// What the last step updates, by groups of the optimiser.
  std::vector<std::vector<TensorNote>> parameters;
  bool half_copies = true;                // the optimiser keeps them on a GPU
  std::vector<MemoryNote> memory;         // since before the model was made
  size_t steps_begin = 0, last_step = 0;  // in `memory`
};

/// True for the cast of an f32 parameter by Autocast which half copies (autograd/half_copy.h)
/// replace on a GPU: not with optimisers that measure norms, which keep none.
bool is_replaced_cast(const StepRecording& step, const OpNote& op);

/// Makes the model of --model and runs three steps on `batch` random images on the CPU, as `lathe
/// bench step` does: forward, loss, backward, update by --optimizer, under --amp.
/// throws: UsageError for a model that cannot be made.
StepRecording record_small_step(const Settings& settings, int64_t batch);
/// The same with a model of one's own.
StepRecording record_small_step(const Settings& settings, int64_t batch,
                                FunctionRef<std::unique_ptr<nn::Module>()> make);

}  // namespace lathe::cli
