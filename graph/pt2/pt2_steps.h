// Steps: the graph of a program, ready to run: operators looked up, in-place calls and the last use
// of each value worked out. Internal: program.h is what others use.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/graph/pt2/pt2_call.h"
#include "lathe/graph/pt2/pt2_calls.h"
#include "lathe/graph/pt2/pt2_fuse.h"
#include "lathe/graph/pt2/pt2_schema.h"
#include "lathe/nn/module.h"

namespace lathe::jit::pt2 {

/// One call. Values are slots: an in-place call's result has the slot of what it writes.
struct Step {
  const Target* target = nullptr;
  Node node = {};
  nn::Module* module = nullptr;  // whose training mode counts; never null
  std::vector<int> done;         // slots that no later step reads
  // The write may put a new tensor into the slot, because no other value that is still needed lies
  // in the same memory; else it writes into the tensor.
  bool may_replace = false;
  // Its results lie in memory that a write changes while another value there is still needed: a
  // view must be one, as in PyTorch.
  bool is_shared = false;
  bool only_in_training = false;  // the rescaling of stochastic depth
  bool is_masked = false;         // the product of a value and the mask of stochastic depth
  int num_batches = -1;           // of batch norm in training: the slot of its counter
  int fusion = -1;                // of Steps::fusions: the one that it belongs to
};

/// The slots that a step reads, one for each time.
std::vector<int> slots_read_by(const Step& step);

struct Steps {
  std::vector<Step> steps;
  std::vector<int> inputs, outputs;  // slots
  std::vector<Scope> scopes;
  std::vector<ModuleCall> calls;
  std::vector<Fusion> fusions;
  int slots = 0;
};

/// throws: DataError that names `file` and lists all operators that are not known, those of
/// sub-graphs too.
void check_known(const Graph& graph, std::string_view file);

/// The steps of a graph without sub-graphs, whose operators are known. `inputs`: those of the
/// program.
/// throws: DataError that names `file` and the node that does not fit.
Steps make_steps(Graph graph, const std::vector<Input>& inputs, FindModule find_module,
                 std::string_view file);

/// Runs the steps on these values of their inputs.   → the outputs
Tensors run_steps(const Steps& steps, const Tensors& inputs, const Setting& setting);

}  // namespace lathe::jit::pt2
