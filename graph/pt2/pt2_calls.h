// The modules of an exported program, and when its steps are calls of theirs: for hooks, which see
// what went into a module and what came out. Internal: program.h is what others use.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/function_ref.h"
#include "lathe/graph/pt2/pt2_call.h"
#include "lathe/nn/lora_layer.h"
#include "lathe/nn/module.h"

namespace lathe::jit::pt2 {

struct Step;
struct Steps;

/// A module of the exported model: its parameters, its name and its mode. The program's steps run,
/// not this module's forward(): it has CallHooks, and forward hooks if `is_one_to_one`.
class Part final : public nn::Module {
 public:
  using nn::Module::buffer, nn::Module::has_hooks, nn::Module::parameter,
      nn::Module::run_call_hooks;

  Part() = default;
  Part(nn::Module& parent, const std::string& name) : nn::Module(parent, name) {}

  std::optional<nn::LoraLayer> lora_layer() const override;
  /// The forward hooks of a call that is one to one, with errors that name this module.
  Tensor replaced(const Tensor& x, const Tensor& y);

  bool is_batch_norm = false;
  bool is_one_to_one = false;  // each call reads one tensor, and others take one from it
  Tensor weight = {};          // the parameter of that name
  std::optional<nn::LoraLayer> layer = {};  // without the weight
  int names = 0;                            // of its tensors and modules

 protected:
  bool takes_one_tensor() const override { return false; }
  bool takes_forward_hooks() const override { return is_one_to_one; }
  DType dtype_for(DType asked) const override {
    return is_batch_norm && is_half(asked) ? kF32 : asked;
  }
};

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

  /// Whether a module with hooks begins or ends its call between these steps.
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
