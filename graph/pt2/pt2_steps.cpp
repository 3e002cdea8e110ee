// make_steps(): looks operators up, and works out what in-place calls may do. run_steps(): runs.
#include "lathe/graph/pt2/pt2_steps.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/printable.h"
#include "lathe/graph/pt2/pt2_inline.h"
#include "lathe/graph/pt2/pt2_memory.h"

namespace lathe::jit::pt2 {

namespace {

using safetensors::in_quotes;

constexpr std::string_view kCounter = "num_batches_tracked", kMean = "running_mean";
constexpr int kAtTheEnd = std::numeric_limits<int>::max();

std::string place_of(const Node& node) {
  return printable(concat(node.module.empty() ? "the model" : node.module, " at ",
                          node.line.empty() ? "an unknown line" : node.line));
}

/// The calls of operators that are not known, in sub-graphs, too.
struct Unknown {
  std::vector<std::string> lines;  // about the first call of each
  std::unordered_set<std::string_view> targets;
  size_t calls = 0;

  void find_in(const Graph& graph) {
    for (const Node& node : graph.nodes) {
      for (const NamedArgument& argument : node.inputs) {
        const auto* const sub = std::get_if<SubGraph>(&argument.value);
        if (sub != nullptr) find_in(*sub->graph);
      }
      if (is_inlined(node) || find_target(node.target) != nullptr) continue;
      ++calls;
      if (!targets.insert(node.target).second) continue;
      lines.push_back(concat("\n  ", in_quotes(node.target), ": node ", in_quotes(node.name), ", ",
                             place_of(node)));
    }
  }
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
    for (const Value input : graph_.inputs) {
      out_.inputs.push_back(input.number);
      memory_.set_outside(input.number);
    }
    const auto counters = counters_of(inputs_);
    std::unordered_set<int> counted;  // counters that batch norms raise
    for (Node& node : graph_.nodes) {
      if (node.target != kBatchNorm) continue;
      const auto found = counters.find(value_of(node, kMean));
      if (found != counters.end()) counted.insert(found->second);
    }
    for (Node& node : graph_.nodes) {
      const Target* const target = find_target(node.target);
      if (target->kind == Kind::kCheck) continue;
      const int value = value_of(node, "self");
      const int self = value < 0 ? -1 : slot_[static_cast<size_t>(value)];
      const bool counts = node.target == "torch.ops.aten.add_.Tensor" && counted.contains(self) &&
                          is_one(find_argument(node, "other"));
      if (counts && gives_one(node)) {
        slot_[static_cast<size_t>(node.outputs[0].number)] = self;
        continue;
      }
      add(std::move(node), *target, counters);
    }
    for (const Value output : graph_.outputs) {
      out_.outputs.push_back(slot_[static_cast<size_t>(output.number)]);
      last_[static_cast<size_t>(out_.outputs.back())] = kAtTheEnd;
    }
    out_.slots = static_cast<int>(graph_.names.size());
    out_.scopes = std::move(graph_.scopes);
    std::vector<bool> own;
    for (const Input& input : inputs_) own.push_back(input.kind != InputKind::kUser);
    out_.calls = module_calls(out_.steps, find_module_, last_, own);
    fuse();
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
    }
    if (node.target == kBatchNorm) {
      const auto counter = counters.find(value_of(node, kMean));
      if (counter != counters.end()) read.push_back(step.num_batches = counter->second);
    }
    for (const int slot : read) last_[static_cast<size_t>(slot)] = at;
    const std::string_view type = node.module_type;
    const bool is_depth = type.ends_with("DropPath") || type.ends_with("StochasticDepth");
    step.is_masked =
        target.name == "aten.mul.Tensor" && is_depth && masks_.contains(value_of(node, "other"));
    const int self = value_of(node, "self");
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
                  ") must write into one tensor \"self\" and return it");
      step.only_in_training =
          target.name.starts_with("aten.div_") && is_depth && drawn_.contains(self);
      drawn_.erase(self);
      if (target.name == "aten.bernoulli_.float") {
        drawn_.insert(self);
        if (is_depth) masks_.insert(self);
      }
    }
    step.node = std::move(node);
  }

  /// Finds the fusions. What their steps read must be there until they run.
  void fuse() {
    out_.fusions = find_fusions(out_, memory_);
    for (size_t i = 0; i < out_.fusions.size(); ++i) {
      const Fusion& fusion = out_.fusions[i];
      for (const int at : fusion.steps()) {
        if (at < 0) continue;
        Step& step = out_.steps[static_cast<size_t>(at)];
        step.fusion = static_cast<int>(i);
        for (const int slot : slots_read_by(step)) {
          int& last = last_[static_cast<size_t>(slot)];
          last = std::max(last, fusion.last());
        }
      }
    }
  }

  /// Which writes may replace, and where each slot is read last.
  void finish() {
    std::vector<Group> groups(static_cast<size_t>(out_.slots));
    for (int slot = 0; slot < out_.slots; ++slot) group_of(groups, slot).add(first_, last_, slot);
    for (Group& group : groups) group.sort();
    for (size_t i = 0; i < out_.steps.size(); ++i) {
      Step& step = out_.steps[i];
      if (step.target->kind != Kind::kWrite) continue;
      const int at = static_cast<int>(i), self = value_of(step.node, "self");
      Group& group = group_of(groups, self);
      const int itself = last_[static_cast<size_t>(self)] > at ? 1 : 0;
      step.may_replace = !memory_.is_outside(self) && group.alive(at) == itself;
      if (!step.may_replace) group.is_written = true;
    }
    for (Step& step : out_.steps) {
      for (const Value output : step.node.outputs) {
        if (output.number >= 0 && group_of(groups, output.number).is_written) step.is_shared = true;
      }
    }
    for (int slot = 0; slot < out_.slots; ++slot) {
      const int last = last_[static_cast<size_t>(slot)];
      if (last >= 0 && last != kAtTheEnd) {
        out_.steps[static_cast<size_t>(last)].done.push_back(slot);
      }
    }
  }

  /// Slots that may lie in the same memory: the steps that make them and that read them last.
  struct Group {
    std::vector<int> firsts, lasts;
    bool is_written = false;  // by a write that may not replace

    void add(const std::vector<int>& first, const std::vector<int>& last, int slot) {
      firsts.push_back(first[static_cast<size_t>(slot)]);
      lasts.push_back(last[static_cast<size_t>(slot)]);
    }
    void sort() {
      std::ranges::sort(firsts);
      std::ranges::sort(lasts);
    }
    /// How many are made before a write and read after it. The write itself makes none.
    ptrdiff_t alive(int write) const {
      return std::ranges::lower_bound(firsts, write) - firsts.begin() -
             (std::ranges::upper_bound(lasts, write) - lasts.begin());
    }
  };
  Group& group_of(std::vector<Group>& groups, int slot) {
    return groups[static_cast<size_t>(memory_.find(slot))];
  }

  Graph graph_;
  const std::vector<Input>& inputs_;
  FindModule find_module_;
  std::string_view file_;
  std::vector<int> slot_;  // of each value
  Memory memory_;
  std::vector<int> first_, last_;  // the steps that make each slot and that read it last
  std::unordered_set<int> drawn_;  // slots that hold what bernoulli_ wrote
  std::unordered_set<int> masks_;  // those of stochastic depth, whatever wrote into them since
  Steps out_;
};

/// The scopes of the program that are open while it runs.
class OpenScopes {
 public:
  OpenScopes(const std::vector<Scope>& scopes, Device device) : scopes_(scopes), device_(device) {}
  ~OpenScopes() { enter(0); }
  OpenScopes(const OpenScopes&) = delete;
  OpenScopes& operator=(const OpenScopes&) = delete;

  /// Closes those that do not hold `scope`, and opens those that do.
  void enter(int scope) {
    if (scope == innermost()) return;
    std::vector<int> chain;  // from the innermost
    for (int s = scope; s != 0; s = at(s).outer) chain.push_back(s);
    size_t same = 0;
    while (same < std::min(open_.size(), chain.size()) &&
           open_[same].scope == chain[chain.size() - 1 - same]) {
      ++same;
    }
    while (open_.size() > same) open_.pop_back();
    while (open_.size() < chain.size()) open(chain[chain.size() - 1 - open_.size()]);
  }

 private:
  struct Open {
    int scope = 0;
    std::optional<Autocast> autocast = {};
    std::optional<NoGrad> without = {};
    std::optional<EnableGrad> with = {};
  };

  const Scope& at(int scope) const { return scopes_[static_cast<size_t>(scope)]; }
  int innermost() const { return open_.empty() ? 0 : open_.back().scope; }

  void open(int scope) {
    Open& made = open_.emplace_back();
    made.scope = scope;
    const Scope& s = at(scope);
    if (s.kind == Scope::Kind::kAutocast) {
      made.autocast.emplace(device_, is_half(s.dtype) ? s.dtype : kBF16, s.on);
    } else if (s.on) {
      made.with.emplace();
    } else {
      made.without.emplace();
    }
  }

  const std::vector<Scope>& scopes_;
  Device device_;
  std::deque<Open> open_;  // outermost first
};

/// NHWC becomes row-major, PyTorch's order where a view of the tensor is written into.
void make_row_major(Held& held) {
  auto* const t = std::get_if<Tensor>(&held);
  if (t == nullptr || !t->defined() || t->ndim() != 4 || t->is_contiguous()) return;
  if (t->is_contiguous(kChannelsLast)) *t = t->contiguous();
}

/// Calls `run` as the call of this step: errors and recordings have its name.
void run_as(const Step& step, FunctionRef<void()> run) {
  std::optional<profile::Layer> watched;
  if (profile::watched()) [[unlikely]]
    watched.emplace(concat("Program", step.node.module.empty() ? "" : ".", step.node.module));
  try {
    run();
  } catch (Error& error) {
    error.set_origin(place_of(step.node));
    throw;
  }
}

/// What comes after a step that made its results.
void finish_step(const Step& step, std::vector<Held>& held) {
  if (!step.is_shared || (step.target->kind != Kind::kPlain && !step.may_replace)) return;
  for (const Value output : step.node.outputs) {
    if (output.number >= 0) make_row_major(held[static_cast<size_t>(output.number)]);
  }
}

void run_step(const Step& step, std::vector<Held>& held, const Setting& setting) {
  if (step.only_in_training && !step.module->is_training()) return;
  run_as(step, [&] {
    Call call(step, held, setting);
    step.target->run(call);
    finish_step(step, held);
  });
}

void run_fusion(const Fusion& fusion, const std::vector<Step>& steps, std::vector<Held>& held,
                const Setting& setting) {
  int next = 0;
  run_as(steps[static_cast<size_t>(fusion.norm)],
         [&] { next = run_fused(fusion, steps, held, setting); });
  for (const int at : fusion.steps()) {
    if (at < 0) continue;
    const Step& step = steps[static_cast<size_t>(at)];
    at < next ? finish_step(step, held) : run_step(step, held, setting);
  }
}

}  // namespace

std::vector<int> slots_read_by(const Step& step) {
  std::vector<int> out;
  for (const NamedArgument& argument : step.node.inputs) {
    for_values(argument.value, [&](const Value& value, bool) { out.push_back(value.number); });
  }
  if (step.num_batches >= 0) out.push_back(step.num_batches);
  return out;
}

void check_known(const Graph& graph, std::string_view file) {
  constexpr size_t kMost = 50;
  Unknown unknown;
  unknown.find_in(graph);
  const size_t count = unknown.lines.size();
  if (count == 0) return;
  std::string text;
  for (size_t i = 0; i < count && i < kMost; ++i) text += unknown.lines[i];
  if (count > kMost) text += "\n  …";
  LATHE_FAIL(DataError, file, ": ", count, count == 1 ? " operator" : " operators",
             " of this program (", unknown.calls, unknown.calls == 1 ? " call" : " calls", ") ",
             count == 1 ? "has" : "have", " no counterpart here; the first call of each:", text);
}

Steps make_steps(Graph graph, const std::vector<Input>& inputs, FindModule find_module,
                 std::string_view file) {
  return Maker(std::move(graph), inputs, find_module, file).make();
}

Tensors run_steps(const Steps& steps, const Tensors& inputs, const Setting& setting) {
  std::vector<Held> held(static_cast<size_t>(steps.slots));
  for (size_t i = 0; i < inputs.size(); ++i) {
    held[static_cast<size_t>(steps.inputs[i])] = inputs[i];
  }
  OpenScopes scopes(steps.scopes, setting.device);
  Watch watch(steps);
  for (size_t i = 0; i < steps.steps.size(); ++i) {
    const Step& step = steps.steps[i];
    scopes.enter(step.node.scope);
    watch.before(static_cast<int>(i), held);
    const Fusion* const fusion =
        step.fusion < 0 ? nullptr : &steps.fusions[static_cast<size_t>(step.fusion)];
    if (fusion == nullptr || watch.splits(fusion->norm, fusion->last())) {
      run_step(step, held, setting);
    } else if (static_cast<int>(i) == fusion->last()) {
      run_fusion(*fusion, steps.steps, held, setting);
    }
    watch.after(static_cast<int>(i), held);
    for (const int slot : step.done) held[static_cast<size_t>(slot)] = {};
  }
  scopes.enter(0);
  Tensors out;
  for (const int slot : steps.outputs) {
    const auto* const tensor = std::get_if<Tensor>(&held[static_cast<size_t>(slot)]);
    LATHE_CHECK(DataError, tensor != nullptr && tensor->defined(), "a result is no tensor");
    out.push_back(*tensor);
  }
  return out;
}

}  // namespace lathe::jit::pt2
