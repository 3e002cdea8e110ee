// The plan of a training step on a GPU that need not be there: its launches, time and memory.
//
//   const train::StepSetup setup{...};                     // how the step is made
//   const auto two = plan::record_small_step(setup, 2), three = plan::record_small_step(setup, 3);
//   const auto launches =
//       plan::launches_at(128, {2, plan::launches_of(two)}, {3, plan::launches_of(three)});
//   plan::seconds_of(launches, gpu_description("h200"), plan::kFast);
//   plan::largest_batch(plan::memory_script(two, three), int64_t{80} << 30);
//
// This header: StepRecording, what a small step does on the CPU, op by op, with the memory that it
// takes. Everything in it grows with the batch in a straight line, so two recordings foretell a
// step of any batch. The others: launch_list.h, step_ledger.h, gpu_model.h, memory_plan.h;
// fused_launches.h and unmeasured_launches.h for variants of the step; measured_step.h for the GPU
// that is there.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/dtype.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/shape.h"
#include "lathe/train/step_setup.h"

namespace lathe::plan {

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
  bool channels_last = false;
  std::string amp = "off";
  double clip_grad_norm = 0;
  std::string optimizer;  // Optimizer::name()
  bool momentum = false;  // of SGD and RMSprop: there is one
  /// Of Muon: what updates each of its groups, "Muon", "AdamW" or "SGD". Empty otherwise.
  std::vector<std::string> group_rules = {};
  bool normalizes = false;  // of Muon: its matrices get a norm before the step
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
LATHE_API bool is_replaced_cast(const StepRecording& step, const OpNote& op);

/// Makes the model and runs three steps on `batch` samples on the CPU: forward, loss, backward,
/// update. It reads no file and needs no GPU.
/// throws: what the functions of `setup` throw; as train::Step.
LATHE_API StepRecording record_small_step(const train::StepSetup& setup, int64_t batch);

}  // namespace lathe::plan
