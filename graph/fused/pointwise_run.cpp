// Pointwise programs: by a plan or one by one, forward and backward. Contract: pointwise_run.h.
#include "lathe/graph/fused/pointwise_run.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/custom_function.h"
#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/record.h"
#include "lathe/core/format.h"
#include "lathe/core/function_ref.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/tensor_impl.h"
#include "lathe/graph/fused/group_kernel.h"
#include "lathe/graph/fused/planned_gradients.h"
#include "lathe/graph/fused/pointwise_plan.h"
#include "lathe/graph/op_table.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/views.h"

namespace lathe::jit {

namespace {

using ProgramPtr = std::shared_ptr<const PointwiseProgram>;

/// Calls the steps in turn. take(k, y) gets the value of each.
template <class Take>
void call_steps(const PointwiseProgram& program, const Tensors& inputs, const Shape& shape,
                Take&& take) {
  Tensors live(program.steps.size());
  for (size_t k = 0; k < program.steps.size(); ++k) {
    const PointwiseProgram::Step& step = program.steps[k];
    Tensors in;
    in.reserve(step.operands.size());
    for (const int operand : step.operands) {
      const int made = operand - program.inputs;
      in.push_back(operand < 0 ? Tensor()
                   : made < 0  ? inputs[static_cast<size_t>(operand)]
                               : live[static_cast<size_t>(made)]);
    }
    for (const int operand : step.operands) {  // after the loop: one value may be two operands
      const auto made = static_cast<size_t>(std::max(operand - program.inputs, 0));
      if (operand >= program.inputs && program.steps[made].last == static_cast<int>(k))
        live[made] = {};
    }
    Tensor y = step.op->call(in, step.attributes);
    LATHE_CHECK(ShapeError, y.shape() == shape, "graph: ", step.op->name, " must be ", shape,
                " here (got: ", y, ")");
    LATHE_CHECK(DTypeError, y.dtype() == step.dtype, "graph: ", step.op->name, " must be ",
                step.dtype, " (got: ", y, ")");
    take(k, y);
    if (step.last > static_cast<int>(k)) live[k] = std::move(y);
  }
}

/// What the gradients of a program's inputs are computed from.
struct Pullback {
  const PointwiseProgram& program;
  std::vector<bool> wanted;  // by input

  /// dL/d(inputs), undefined where it is not wanted or zero. `inputs` require grad where wanted;
  /// what is behind them is not walked.
  Tensors of(const Tensors& inputs, const Tensors& values, const Tensors& dy,
             bool create_graph) const {
    Tensors outputs, seeds, leaves, gradients(inputs.size());
    for (size_t r = 0; r < values.size(); ++r) {
      if (!dy[r].defined() || !values[r].requires_grad()) continue;
      outputs.push_back(values[r]);
      seeds.push_back(dy[r]);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (wanted[i]) leaves.push_back(inputs[i]);
    }
    if (outputs.empty()) return gradients;
    const Tensors found = autograd::run_backward({.outputs = outputs,
                                                  .gradients = seeds,
                                                  .retain_graph = create_graph,
                                                  .create_graph = create_graph,
                                                  .inputs = &leaves,
                                                  .stop_at_inputs = true});
    for (size_t i = 0, next = 0; i < inputs.size(); ++i) {
      if (wanted[i]) gradients[i] = found[next++];
    }
    return gradients;
  }

  /// The inputs as leaves of a graph of their own.
  Tensors leaves_of(const Tensors& inputs) const {
    Tensors leaves;
    for (size_t i = 0; i < inputs.size(); ++i) {
      leaves.push_back(inputs[i].defined() ? inputs[i].detach() : Tensor());
      if (wanted[i]) leaves.back().requires_grad_();
    }
    return leaves;
  }

  /// The inputs with their history, each behind a node of its own: what one input owes to another
  /// is not part of these gradients.
  Tensors apart(const Tensors& inputs) const {
    const EnableGrad on;
    Tensors views;
    for (size_t i = 0; i < inputs.size(); ++i) {
      views.push_back(wanted[i] ? view(inputs[i], inputs[i].shape()) : inputs[i]);
    }
    return views;
  }

  Tensors whole(const Tensors& inputs, const Tensors& dy, bool create_graph) const {
    const Tensors used = create_graph ? apart(inputs) : leaves_of(inputs);
    const auto record = [&] {
      const EnableGrad on;
      return call_in_turn(program, used, program.shape);
    };
    return of(used, record(), dy, create_graph);
  }
};

/// The first GPU that an input is on, if any.
std::optional<Device> gpu_of(const Tensors& inputs) {
  for (const Tensor& t : inputs) {
    if (t.defined() && t.device().is_cuda()) return t.device();
  }
  return std::nullopt;
}

/// The program whose last result is the value that was to be added up; the program itself if there
/// is no total.
ProgramPtr without_total(const ProgramPtr& program) {
  if (program->total.step < 0) return program;
  auto plain = std::make_shared<PointwiseProgram>(*program);
  plain->results.push_back(plain->total.step);
  plain->total = {};
  return plain;
}

/// A program as one node of the autograd graph, which saves its inputs only.
struct FusedPointwise : CustomFunction<FusedPointwise> {
  struct Context : FunctionContext {
    ProgramPtr program;  // with the value of the total as its last result, and not its sum
    PointwiseProgram::Total total;
  };

  static Tensors forward(Context& context, const ProgramPtr& program, const Tensors& inputs,
                         FunctionRef<Tensors()> compute) {
    context.program = without_total(program);
    context.total = program->total;
    context.save_for_backward(inputs);
    context.set_materialize_zeros(false);
    return compute();
  }

  static Tensors backward(Context& context, const Tensors& given) {
    Tensors dy = given;
    if (context.total.step >= 0 && dy.back().defined()) {  // as the ops have it
      const int64_t divisor = context.total.mean ? numel_of(context.program->shape) : 1;
      dy.back() =
          expand(context.total.mean ? div(dy.back(), divisor) : dy.back(), context.program->shape);
    }
    const Tensors inputs = context.saved_tensors();
    Pullback pullback{*context.program, {}};
    for (size_t i = 0; i < inputs.size(); ++i) {
      pullback.wanted.push_back(context.needs_input_grad(i));
    }
    if (grad_enabled()) return pullback.whole(inputs, dy, true);
    const std::optional<Device> gpu = gpu_of(inputs);
    if (std::optional<Tensors> planned =
            planned_gradients(*context.program, inputs, dy, pullback.wanted, gpu))
      return std::move(*planned);
    return pullback.whole(inputs, dy, false);
  }
};

/// True if each step reads a value of the whole shape, whose order in memory its own value takes.
bool all_steps_are_full(const PointwiseProgram& program, const Tensors& inputs) {
  const int64_t all = numel_of(program.shape);
  return std::ranges::all_of(program.steps, [&](const PointwiseProgram::Step& step) {
    return std::ranges::any_of(step.operands, [&](int operand) {
      return operand >= program.inputs ||
             (operand >= 0 && inputs[static_cast<size_t>(operand)].numel() == all);
    });
  });
}

std::atomic<bool>& kernels_are_on() {
  static std::atomic<bool> on = [] {
    const char* const text = std::getenv("LATHE_FUSED_KERNELS");
    return text == nullptr || std::string_view(text) != "0";
  }();
  return on;
}

bool is_recorded(const Tensors& inputs) {
  const std::vector<autograd::TensorRef> refs(inputs.begin(), inputs.end());
  return autograd::wants_record(refs.data(), refs.size());
}

/// The results that `compute` gives, as one node of the autograd graph.
Tensors as_one_node(const ProgramPtr& program, const Tensors& inputs,
                    FunctionRef<Tensors()> compute) {
  if (is_recorded(inputs)) return FusedPointwise::apply(program, inputs, compute);
  Tensors values = compute();
  if (inference_enabled()) {
    for (const Tensor& t : values) t.impl().inference = true;
  }
  return values;
}

/// A program's kernel, or why there is none.
struct KernelChoice {
  std::shared_ptr<const GroupKernel> group = nullptr;
  const LoadedGroup* loaded = nullptr;
  std::string why_not = {};
};

KernelChoice kernel_for(const PointwiseProgram& program, const Tensors& inputs, Device gpu,
                        bool added_up) {
  if (!fused_kernels()) return {.why_not = "fused kernels are off"};
  if (profile::recording()) return {.why_not = "a profiler or debug scope records ops"};
  if (amp::autocast_enabled(kCPU) || amp::autocast_enabled(gpu))
    return {.why_not = "under Autocast"};
  if (program.steps.size() > size_t{kMostKernelSteps})
    return {.why_not = concat("more than ", kMostKernelSteps, " ops")};
  const std::optional<InputForms> forms = input_forms(program.shape, inputs);
  if (!forms) return {.why_not = "operands are broadcast, or have gaps or other orders in memory"};
  if (!all_steps_are_full(program, inputs))
    return {.why_not = "an op has only numbers as operands"};
  KernelChoice found{.group = group_kernel(program, *forms)};
  if (found.group == nullptr) return {.why_not = "an op has no kernel of its own for its operands"};
  found.loaded = &found.group->on(gpu);
  found.why_not = found.loaded->why_not;
  if (found.loaded->kernel && is_recorded(inputs))
    found.why_not = why_no_gradient_kernel(program, *forms, inputs, gpu, added_up);
  return found;
}

Tensors run_on_gpu(const ProgramPtr& program, const Tensors& inputs, Device gpu, std::string* way,
                   bool added_up = false) {
  if (program->total.step >= 0) {
    const char* const op = program->total.mean ? "mean" : "sum";
    Tensors values = run_on_gpu(without_total(program), inputs, gpu, way, true);
    values.back() = program->total.mean ? mean(values.back()) : sum(values.back());
    if (way != nullptr) *way += concat(", then ", op);
    return values;
  }
  const KernelChoice found = kernel_for(*program, inputs, gpu, added_up);
  const bool fused = found.why_not.empty();
  if (way != nullptr)
    *way = fused ? "one kernel for " + found.loaded->target : "one by one: " + found.why_not;
  if (!fused) return call_in_turn(*program, inputs, program->shape);
  const auto compute = [&] { return found.group->run(*found.loaded, inputs); };
  return as_one_node(program, inputs, FunctionRef<Tensors()>(compute));
}

}  // namespace

bool fused_kernels() { return kernels_are_on(); }
void set_fused_kernels(bool on) { kernels_are_on() = on; }

Tensors call_in_turn(const PointwiseProgram& program, const Tensors& inputs, const Shape& shape) {
  Tensors values(program.results.size());
  call_steps(program, inputs, shape, [&](size_t k, const Tensor& y) {
    for (size_t r = 0; r < values.size(); ++r) {
      if (program.results[r] == static_cast<int>(k)) values[r] = y;
    }
  });
  return values;
}

Tensors run_pointwise(const ProgramPtr& program, const Tensors& inputs, std::string* way) {
  if (const std::optional<Device> gpu = gpu_of(inputs))
    return run_on_gpu(program, inputs, *gpu, way);
  const bool together =
      !profile::recording() && !amp::autocast_enabled(kCPU) && all_steps_are_full(*program, inputs);
  std::optional<PointwisePlan> plan;
  if (together) {
    if (const std::optional<InputForms> forms = input_forms(program->shape, inputs))
      plan = PointwisePlan::of(*program, *forms);
  }
  if (plan) return as_one_node(program, inputs, [&] { return plan->run(inputs); });
  if (program->total.step < 0) return call_in_turn(*program, inputs, program->shape);
  Tensors values = run_pointwise(without_total(program), inputs);
  values.back() = program->total.mean ? mean(values.back()) : sum(values.back());
  return values;
}

}  // namespace lathe::jit
