// The modules of an exported program, and when its steps are calls of theirs: for hooks, which see
// what went into a module and what came out. Internal: program.h is what others use.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/function_ref.h"
#include "lathe/graph/module_tree.h"
#include "lathe/graph/pt2/pt2_call.h"
#include "lathe/nn/module.h"

namespace lathe::jit::pt2 {

struct Step;
struct Steps;

/// Which module a path of the program names; it is made if the program holds no tensors of it.
using FindModule = FunctionRef<nn::Module&(const std::string& path)>;

/// A call of a module: the steps from `begin` to before `end`.
struct ModuleCall {
  Part* module = nullptr;
  int begin = 0, end = 0;
  std::vector<int> inputs;   // slots that it reads and that are neither its own nor the program's
  std::vector<int> outputs;  // slots that it makes or writes and that are read after it
};

/// The calls, in the order in which they begin, those that hold others first.
///   last  the step that reads each slot last
///   own   the first slots, which hold the program's tensors and inputs: whether of the program
std::vector<ModuleCall> module_calls(std::span<const Step> steps, FindModule find_module,
                                     std::span<const int> last, const std::vector<bool>& own);

/// Notes in each module that the steps call what its calls have in common: is_one_to_one, layer.
///   tensors  the program's, in the first slots; undefined for the user's
void note_layers(const Steps& steps, const Tensors& tensors);

/// Runs the hooks of modules while the steps run.
class Watch {
 public:
  explicit Watch(const Steps& steps);

  /// True if a module with hooks begins or ends its call between steps `first` and `last`.
  bool splits(int first, int last) const;
  void before(int step, const std::vector<Held>& held);
  void after(int step, std::vector<Held>& held);

 private:
  struct Open {
    const ModuleCall* call;
    Tensors inputs;
  };

  std::vector<const ModuleCall*> calls_;  // of modules with hooks
  size_t next_ = 0;
  std::vector<Open> open_;
};

}  // namespace lathe::jit::pt2
