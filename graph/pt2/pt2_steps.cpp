// make_steps(): looks operators up, and works out what in-place calls may do. run_steps(): runs.
#include "lathe/graph/pt2/pt2_steps.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/printable.h"

namespace lathe::jit::pt2 {

namespace {

using safetensors::in_quotes;

constexpr std::string_view kCounter = "num_batches_tracked", kMean = "running_mean";
constexpr int kAtTheEnd = std::numeric_limits<int>::max();

/// Calls f for each value in an argument, and says whether it is a tensor.
template <class F>
void for_values(Argument& argument, F&& f) {
  bool is_tensor = true;
  const auto one = [&](Value& value) {
    if (value.number >= 0) f(value, is_tensor);
  };
  if (auto* const value = std::get_if<Value>(&argument)) one(*value);
  if (auto* const values = std::get_if<std::vector<Value>>(&argument)) {
    for (Value& value : *values) one(value);
  }
  is_tensor = false;
  if (auto* const number = std::get_if<Integer>(&argument)) one(number->value);
  if (auto* const numbers = std::get_if<std::vector<Integer>>(&argument)) {
    for (Integer& number : *numbers) one(number.value);
  }
}

Argument* find_argument(Node& node, std::string_view name) {
  for (NamedArgument& argument : node.inputs) {
    if (argument.name == name) return &argument.value;
  }
  return nullptr;
}

/// The slot of a tensor argument; -1 if it is none.
int slot_of(Node& node, std::string_view name) {
  const Argument* const argument = find_argument(node, name);
  const auto* const value = argument == nullptr ? nullptr : std::get_if<Value>(argument);
  return value == nullptr ? -1 : value->number;
}

std::string place_of(const Node& node) {
  return printable(concat(node.module.empty() ? "the model" : node.module, " at ",
                          node.line.empty() ? "an unknown line" : node.line));
}

/// Refuses the graph if it calls operators that are not known.
void check_known(const Graph& graph, std::string_view file) {
  constexpr size_t kMost = 50;
  std::vector<std::pair<std::string, std::string>> lines;  // target, text
  std::unordered_set<std::string> known;
  size_t calls = 0;
  for (const Node& node : graph.nodes) {
    if (find_target(node.target) != nullptr) continue;
    ++calls;
    if (!known.insert(node.target).second) continue;
    lines.emplace_back(node.target, concat("\n  ", in_quotes(node.target), ": node ",
                                           in_quotes(node.name), ", ", place_of(node)));
  }
  if (lines.empty()) return;
  std::string text;
  for (size_t i = 0; i < lines.size() && i < kMost; ++i) text += lines[i].second;
  if (lines.size() > kMost) text += "\n  …";
  LATHE_FAIL(DataError, file, ": ", lines.size(), lines.size() == 1 ? " operator" : " operators",
             " of this program (", calls, calls == 1 ? " call" : " calls", ") ",
             lines.size() == 1 ? "has" : "have",
             " no counterpart here; the first call of each:", text);
}

/// Which slots may lie in the same memory.
class Memory {
 public:
  explicit Memory(size_t slots) : parent_(slots), outside_(slots) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  int find(int slot) {
    while (parent_[at(slot)] != slot) slot = parent_[at(slot)] = parent_[at(parent_[at(slot)])];
    return slot;
  }
  void join(int a, int b) {
    a = find(a);
    b = find(b);
    if (outside_[at(a)]) outside_[at(b)] = true;
    parent_[at(a)] = b;
  }
  /// The tensor belongs to somebody else.
  void set_outside(int slot) { outside_[at(find(slot))] = true; }
  bool is_outside(int slot) { return outside_[at(find(slot))]; }

 private:
  static size_t at(int slot) { return static_cast<size_t>(slot); }

  std::vector<int> parent_;
  std::vector<bool> outside_;
};

/// The counters of batch norms, by the slots of their running means. An exported program counts by
/// a call of its own, which batch norm makes superfluous here.
std::unordered_map<int, int> counters_of(const std::vector<Input>& inputs) {
  std::unordered_map<std::string_view, int> counters;  // by what stands before the name
  const auto before = [](const Input& input, std::string_view ending) {
    return std::string_view(input.name).substr(0, input.name.size() - ending.size());
  };
  for (const Input& input : inputs) {
    if (input.kind == InputKind::kBuffer && input.name.ends_with(kCounter)) {
      counters.emplace(before(input, kCounter), input.value.number);
    }
  }
  std::unordered_map<int, int> out;
  for (const Input& input : inputs) {
    if (input.kind != InputKind::kBuffer || !input.name.ends_with(kMean)) continue;
    const auto counter = counters.find(before(input, kMean));
    if (counter != counters.end()) out.emplace(input.value.number, counter->second);
  }
  return out;
}

bool is_one(const Argument* argument) {
  const auto* const number = argument == nullptr ? nullptr : std::get_if<Integer>(argument);
  return number != nullptr && number->value.number < 0 && number->known == 1;
}

class Maker {
 public:
  Maker(Graph graph, const std::vector<Input>& inputs, FindModule find_module,
        std::string_view file)
      : graph_(std::move(graph)),
        inputs_(inputs),
        find_module_(find_module),
        file_(file),
        slot_(graph_.names.size()),
        memory_(graph_.names.size()),
        first_(graph_.names.size(), -1),
        last_(graph_.names.size(), -1) {
    std::iota(slot_.begin(), slot_.end(), 0);
  }

  Steps make() {
    check_known(graph_, file_);
    for (const Value input : graph_.inputs) {
      out_.inputs.push_back(input.number);
      memory_.set_outside(input.number);
    }
    const auto counters = counters_of(inputs_);
    std::unordered_set<int> counted;  // counters that batch norms raise
    for (Node& node : graph_.nodes) {
      if (node.target != kBatchNorm) continue;
      const auto found = counters.find(slot_of(node, kMean));
      if (found != counters.end()) counted.insert(found->second);
    }
    for (Node& node : graph_.nodes) {
      const Target* const target = find_target(node.target);
      if (target->kind == Kind::kCheck) continue;
      const bool counts = node.target == "torch.ops.aten.add_.Tensor" &&
                          counted.contains(slot_of(node, "self")) &&
                          is_one(find_argument(node, "other"));
      if (counts && gives_one(node)) {
        slot_[static_cast<size_t>(node.outputs[0].number)] = slot_of(node, "self");
        continue;
      }
      add(std::move(node), *target, counters);
    }
    for (const Value output : graph_.outputs) {
      out_.outputs.push_back(slot_[static_cast<size_t>(output.number)]);
      last_[static_cast<size_t>(out_.outputs.back())] = kAtTheEnd;
    }
    out_.slots = static_cast<int>(graph_.names.size());
    finish();
    return std::move(out_);
  }

 private:
  static constexpr std::string_view kBatchNorm = "torch.ops.aten.batch_norm.default";

  /// Whether the only result has a name.
  static bool gives_one(const Node& node) {
    return node.outputs.size() == 1 && node.outputs[0].number >= 0;
  }

  void add(Node node, const Target& target, const std::unordered_map<int, int>& counters) {
    const int at = static_cast<int>(out_.steps.size());
    Step& step = out_.steps.emplace_back();
    step.target = &target;
    step.module = &find_module_(node.module);
    std::vector<int> read, tensors;
    for (NamedArgument& argument : node.inputs) {
      for_values(argument.value, [&](Value& value, bool is_tensor) {
        value.number = slot_[static_cast<size_t>(value.number)];
        read.push_back(value.number);
        if (is_tensor) tensors.push_back(value.number);
      });
      if (const auto* const sub = std::get_if<SubGraph>(&argument.value)) {
        step.inner = std::make_unique<Steps>(make_steps(*sub->graph, {}, find_module_, file_));
      }
    }
    if (node.target == kBatchNorm) {
      const auto counter = counters.find(slot_of(node, kMean));
      if (counter != counters.end()) read.push_back(step.num_batches = counter->second);
    }
    for (const int slot : read) last_[static_cast<size_t>(slot)] = at;
    const int self = slot_of(node, "self");
    for (Value& output : node.outputs) {
      if (output.number < 0) continue;
      int& slot = slot_[static_cast<size_t>(output.number)];
      if (target.kind == Kind::kWrite && self >= 0) slot = self;
      output.number = slot;
      if (target.kind == Kind::kWrite) continue;
      first_[static_cast<size_t>(slot)] = last_[static_cast<size_t>(slot)] = at;
      if (target.kind != Kind::kView) continue;
      for (const int input : tensors) memory_.join(slot, input);
    }
    if (target.kind == Kind::kWrite) {
      LATHE_CHECK(DataError, self >= 0 && gives_one(node), file_, ": node ", in_quotes(node.name),
                  " (", in_quotes(node.target),
                  ") must write into one tensor \"self\" and give it");
      const std::string_view type = node.module_type;
      step.only_in_training = target.name.starts_with("aten.div_") && drawn_.contains(self) &&
                              (type.ends_with("DropPath") || type.ends_with("StochasticDepth"));
      drawn_.erase(self);
      if (target.name == "aten.bernoulli_.float") drawn_.insert(self);
    }
    step.node = std::move(node);
  }

  /// Which writes may replace, and where each slot is read last.
  void finish() {
    std::unordered_map<int, std::vector<int>> together;
    for (int slot = 0; slot < out_.slots; ++slot) together[memory_.find(slot)].push_back(slot);
    for (size_t i = 0; i < out_.steps.size(); ++i) {
      Step& step = out_.steps[i];
      if (step.target->kind != Kind::kWrite) continue;
      const int at = static_cast<int>(i), self = slot_of(step.node, "self");
      step.may_replace = !memory_.is_outside(self);
      for (const int other : together[memory_.find(self)]) {
        const auto o = static_cast<size_t>(other);
        if (other != self && first_[o] < at && last_[o] > at) step.may_replace = false;
      }
    }
    for (int slot = 0; slot < out_.slots; ++slot) {
      const int last = last_[static_cast<size_t>(slot)];
      if (last >= 0 && last != kAtTheEnd) {
        out_.steps[static_cast<size_t>(last)].done.push_back(slot);
      }
    }
  }

  Graph graph_;
  const std::vector<Input>& inputs_;
  FindModule find_module_;
  std::string_view file_;
  std::vector<int> slot_;  // of each value
  Memory memory_;
  std::vector<int> first_, last_;  // the steps that make each slot and that read it last
  std::unordered_set<int> drawn_;  // slots that hold what bernoulli_ wrote
  Steps out_;
};

void run_step(const Step& step, std::vector<Held>& held, const Setting& setting) {
  if (step.only_in_training && !step.module->is_training()) return;
  std::optional<profile::Layer> watched;
  if (profile::watched()) [[unlikely]]
    watched.emplace(concat("Program", step.node.module.empty() ? "" : ".", step.node.module));
  try {
    Call call(step, held, setting);
    step.target->run(call);
  } catch (Error& error) {
    error.set_origin(place_of(step.node));
    throw;
  }
}

}  // namespace

Steps make_steps(Graph graph, const std::vector<Input>& inputs, FindModule find_module,
                 std::string_view file) {
  return Maker(std::move(graph), inputs, find_module, file).make();
}

Tensors run_steps(const Steps& steps, const Tensors& inputs, const Setting& setting) {
  LATHE_CHECK(DataError, inputs.size() == steps.inputs.size(), "a sub-graph of ",
              steps.inputs.size(), " inputs is called with ", inputs.size());
  std::vector<Held> held(static_cast<size_t>(steps.slots));
  for (size_t i = 0; i < inputs.size(); ++i) {
    held[static_cast<size_t>(steps.inputs[i])] = inputs[i];
  }
  for (const Step& step : steps.steps) {
    run_step(step, held, setting);
    for (const int slot : step.done) held[static_cast<size_t>(slot)] = {};
  }
  Tensors out;
  for (const int slot : steps.outputs) {
    const auto* const tensor = std::get_if<Tensor>(&held[static_cast<size_t>(slot)]);
    LATHE_CHECK(DataError, tensor != nullptr && tensor->defined(), "a result is no tensor");
    out.push_back(*tensor);
  }
  return out;
}

}  // namespace lathe::jit::pt2
