// Gradients of pointwise programs: the trace of their backward pass. Contract:
// pointwise_gradient.h.
#include "lathe/graph/fused/pointwise_gradient.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/tensor_bytes.h"
#include "lathe/core/hooks/range.h"
#include "lathe/graph/fused/group_kernel.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/tracer.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/plans/lru_cache.h"
#include "lathe/ops/views.h"

namespace lathe::jit {

namespace {

using Kind = InputForm::Kind;
using Found = std::optional<PointwiseGradient>;  // nothing: there is none

constexpr int64_t kExample = 2;  // elements of the example's full tensors

/// A backward pass on a few numbers, which trace() watches.
class Backward {
 public:
  Backward(const PointwiseProgram& program, const std::vector<bool>& wanted,
           const InputForms& inputs, const InputForms& dys)
      : program_(program), wanted_(wanted) {
    for (const InputForm& form : inputs) add_example(form);
    // A gradient that is one number has the shape of its result all the same.
    for (InputForm form : dys) {
      if (form.kind != Kind::kUndefined) form.kind = Kind::kFull;
      add_example(form);
    }
  }

  Graph traced() {
    const NoGrad off;
    TwoRuns runs{.first = examples_, .second = {}};
    for (const Tensor& x : examples_) runs.second.push_back(varied(x, false));
    return common_graph([this](const Tensors& t) { return gradients(t); }, runs, nullptr,
                        Purpose::kInside);
  }

  /// By input of the program: has it a gradient? After traced().
  const std::vector<bool>& found() const { return found_; }
  /// The place of the trace's i-th input among the program's inputs and, behind them, the dys.
  int place(size_t i) const { return places_[i]; }

 private:
  void add_example(const InputForm& form) {
    const int place = next_++;
    if (form.kind == Kind::kUndefined) return;
    const int64_t size = form.kind == Kind::kFull ? kExample : 1;
    Tensor t = cast(div(arange(1, size + 1), 4), form.dtype);
    examples_.push_back(form.kind == Kind::kZeroDim ? view(t, {}) : t);
    places_.push_back(place);
  }

  Tensors gradients(const Tensors& given) {
    const EnableGrad on;
    const auto inputs = static_cast<size_t>(program_.inputs);
    Tensors all(static_cast<size_t>(next_));
    for (size_t i = 0; i < given.size(); ++i) {
      const auto place = static_cast<size_t>(places_[i]);
      all[place] = given[i].detach();
      if (place < inputs && wanted_[place]) all[place].requires_grad_();
    }
    const Tensors values = call_in_turn(
        program_, Tensors(all.begin(), all.begin() + program_.inputs), Shape{kExample});
    Tensors outputs, seeds, leaves;
    for (size_t r = 0; r < values.size(); ++r) {
      if (!all[inputs + r].defined() || !values[r].requires_grad()) continue;
      outputs.push_back(values[r]);
      seeds.push_back(all[inputs + r]);
    }
    for (size_t i = 0; i < inputs; ++i) {
      if (wanted_[i]) leaves.push_back(all[i]);
    }
    // With create_graph every addition is an op, and seen.
    Tensors made;
    if (!outputs.empty()) {
      made = lathe::grad(outputs, leaves,
                         {.grad_outputs = seeds, .create_graph = true, .allow_unused = true});
    }
    found_.assign(inputs, false);
    Tensors results;
    for (size_t i = 0, next = 0; i < inputs && !made.empty(); ++i) {
      if (!wanted_[i] || !made[next++].defined()) continue;
      found_[i] = true;
      results.push_back(made[next - 1]);
    }
    return results;
  }

  const PointwiseProgram& program_;
  const std::vector<bool>& wanted_;
  Tensors examples_;
  std::vector<int> places_;
  int next_ = 0;
  std::vector<bool> found_;
};

/// A tensor whose elements are all equal, as one number; undefined for others.
Tensor one_number(const Tensor& t) {
  const Tensor first = t.ndim() == 0 ? t : view(narrow(reshape(t, {-1}), 0, 0, 1), {1});
  const Tensor all = t.ndim() == 0 ? t : contiguous(expand(first, t.shape()));
  return bytes_of(dense_on_cpu(all)) == bytes_of(dense_on_cpu(t)) ? contiguous(first) : Tensor();
}

/// The traced graph as a program and its plan.
class Conversion {
 public:
  Conversion(const Graph& graph, const Backward& backward, InputForms forms)
      : graph_(graph), forms_(std::move(forms)), operands_(graph.values.size(), -1) {
    for (size_t i = 0; i < graph.inputs.size(); ++i)
      operands_[static_cast<size_t>(graph.inputs[i])] = backward.place(i);
  }

  Found converted(const std::vector<bool>& found) {
    program_.shape = Shape{kExample};
    if (!add_constants()) return std::nullopt;
    program_.inputs = static_cast<int>(forms_.size());
    for (const Node& node : graph_.nodes) {
      if (!add(node)) return std::nullopt;
    }
    std::vector<std::optional<int>> from(found.size());
    size_t next = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      if (!found[i]) continue;
      const int operand = operands_[static_cast<size_t>(graph_.outputs[next++])];
      if (operand < 0 || is_constant(operand)) return std::nullopt;
      from[i] = operand;
      if (operand < program_.inputs) continue;
      from[i] = -1 - static_cast<int>(program_.results.size());
      program_.results.push_back(operand - program_.inputs);
    }
    std::optional<PointwisePlan> plan = PointwisePlan::of(program_, forms_);
    if (!plan) return std::nullopt;
    auto kernel = std::make_shared<const GroupKernel>(*plan);
    return PointwiseGradient{std::move(*plan), std::move(kernel), std::move(constants_),
                             std::move(from)};
  }

 private:
  bool is_constant(int operand) const {
    const int constants = static_cast<int>(constants_.size());
    return operand < program_.inputs && operand >= program_.inputs - constants;
  }

  bool add_constants() {
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (value.origin != Origin::kConstant) continue;
      const Tensor number = one_number(value.tensor);
      if (!number.defined()) return false;
      operands_[v] = static_cast<int>(forms_.size());
      forms_.push_back({number.dtype(), number.ndim() == 0 ? Kind::kZeroDim : Kind::kNumber});
      constants_.push_back(number);
    }
    return true;
  }

  bool add(const Node& node) {
    const Type& type = graph_.values[static_cast<size_t>(node.output)].type;
    if (!node.op->pointwise || type.shape != std::vector<Size>{{0, kExample}}) return false;
    PointwiseProgram::Step step{node.op, {}, node.attributes, type.dtype};
    for (const int input : node.inputs)
      step.operands.push_back(input < 0 ? -1 : operands_[static_cast<size_t>(input)]);
    operands_[static_cast<size_t>(node.output)] =
        program_.inputs + static_cast<int>(program_.steps.size());
    program_.steps.push_back(std::move(step));
    return true;
  }

  const Graph& graph_;
  InputForms forms_;
  std::vector<int> operands_;  // of the program, by value of the graph
  PointwiseProgram program_;
  Tensors constants_;
};

Found make(const PointwiseProgram& program, const std::vector<bool>& wanted,
           const InputForms& inputs, const InputForms& dys) {
  try {
    Backward backward(program, wanted, inputs, dys);
    Graph graph = backward.traced();
    fold_constants(graph);
    merge_common_subexpressions(graph);
    remove_dead_code(graph);
    InputForms forms = inputs;
    forms.insert(forms.end(), dys.begin(), dys.end());
    return Conversion(graph, backward, std::move(forms)).converted(backward.found());
  } catch (const Error&) {  // what a trace does not see, or an op that is not defined for a dtype
    return std::nullopt;
  }
}

/// All that a gradient depends on.
std::string gradient_key(const PointwiseProgram& program, const std::vector<bool>& wanted,
                         const InputForms& inputs, const InputForms& dys) {
  std::string key = key_of(program, inputs) + '|';
  for (const InputForm& form : dys)
    key += concat(static_cast<int>(form.dtype), ',', static_cast<int>(form.kind), ',');
  for (const bool w : wanted) key += w ? '1' : '0';
  return key;
}

}  // namespace

std::shared_ptr<const PointwiseGradient> gradient_of(const PointwiseProgram& program,
                                                     const std::vector<bool>& wanted,
                                                     const InputForms& inputs,
                                                     const InputForms& dys) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (wanted[i] && inputs[i].kind != Kind::kFull) return nullptr;  // a sum, and no pointwise op
  }
  // Shared by all graphs, as an autograd graph holds its program alone and outlives the jit::Graph.
  static LruCache<std::string, Found> cache(256);
  const std::string key = gradient_key(program, wanted, inputs, dys);
  std::shared_ptr<const Found> entry = cache.find(key);
  if (entry == nullptr) {
    if (profile::recording()) return nullptr;  // who watches must not see the example
    entry = cache.get(key, [&] { return make(program, wanted, inputs, dys); });
  }
  if (!*entry) return nullptr;
  return {entry, &**entry};
}

}  // namespace lathe::jit
