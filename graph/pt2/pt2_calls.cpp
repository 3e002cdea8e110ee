// module_calls(): from PyTorch's stacks of modules, which each node has; Watch.
#include "lathe/graph/pt2/pt2_calls.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "lathe/core/error.h"
#include "lathe/graph/pt2/pt2_steps.h"

namespace lathe::jit::pt2 {

namespace {

constexpr size_t kMostLevels = 64;  // each step looks at all

/// A level of a stack: "L__self__conv@1" and "conv". The key tells calls of one module apart.
struct Level {
  std::string_view key, path;
};

/// "L__self__,,net.Net;L__self__conv@1,conv,torch.nn.modules.conv.Conv2d" without the program.
std::vector<Level> levels_of(std::string_view stack) {
  std::vector<Level> out;
  while (!stack.empty() && out.size() < kMostLevels) {
    const size_t end = std::min(stack.find(';'), stack.size());
    const std::string_view level = stack.substr(0, end);
    const size_t comma = level.find(','), type = level.rfind(',');
    if (comma < type && comma + 1 < type) {
      const std::string_view path = level.substr(comma + 1, type - comma - 1);
      out.push_back({level.substr(0, comma), path.substr(0, path.find('@'))});
    }
    stack.remove_prefix(std::min(end + 1, stack.size()));
  }
  return out;
}

class Finder {
 public:
  Finder(std::span<const Step> steps, FindModule find_module, std::span<const int> last,
         const std::vector<bool>& own)
      : steps_(steps), find_module_(find_module), last_(last), own_(own) {}

  std::vector<ModuleCall> run() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      // A node that no module made stands where its result is needed.
      if (!step.node.stack.empty()) enter(levels_of(step.node.stack), static_cast<int>(i));
      for (Open& open : open_) look_at(step, open);
    }
    leave(0, static_cast<int>(steps_.size()));
    std::erase_if(calls_, [](const ModuleCall& call) { return call.module == nullptr; });
    return std::move(calls_);
  }

 private:
  struct Open {
    std::string_view key;
    size_t call;
    std::unordered_set<int> read = {}, made = {};
    std::vector<int> in_order = {};  // what is in `made`
  };

  void enter(const std::vector<Level>& levels, int at) {
    size_t same = 0;
    while (same < std::min(levels.size(), open_.size()) && levels[same].key == open_[same].key) {
      ++same;
    }
    leave(same, at);
    for (; same < levels.size(); ++same) {
      auto* const part = dynamic_cast<Part*>(&find_module_(std::string(levels[same].path)));
      open_.push_back({levels[same].key, calls_.size()});
      ModuleCall& call = calls_.emplace_back();
      call.module = part;
      call.begin = at;
    }
  }

  /// Closes all calls but the outer `kept`.
  void leave(size_t kept, int at) {
    for (; open_.size() > kept; open_.pop_back()) {
      const Open& open = open_.back();
      ModuleCall& call = calls_[open.call];
      call.end = at;
      for (const int slot : open.in_order) {
        if (last_[static_cast<size_t>(slot)] >= at) call.outputs.push_back(slot);
      }
    }
  }

  void look_at(const Step& step, Open& open) {
    for (const NamedArgument& argument : step.node.inputs) {
      for_values(argument.value, [&](const Value& value, bool is_tensor) {
        const auto slot = static_cast<size_t>(value.number);
        if (!is_tensor || (slot < own_.size() && own_[slot])) return;
        if (open.made.contains(value.number) || !open.read.insert(value.number).second) return;
        calls_[open.call].inputs.push_back(value.number);
      });
    }
    for (const Value output : step.node.outputs) {
      if (output.number >= 0 && open.made.insert(output.number).second) {
        open.in_order.push_back(output.number);
      }
    }
  }

  std::span<const Step> steps_;
  FindModule find_module_;
  std::span<const int> last_;
  const std::vector<bool>& own_;
  std::vector<Open> open_;
  std::vector<ModuleCall> calls_;
};

Tensors tensors_in(const std::vector<int>& slots, const std::vector<Held>& held) {
  Tensors out;
  for (const int slot : slots) {
    const auto* const t = std::get_if<Tensor>(&held[static_cast<size_t>(slot)]);
    if (t != nullptr) out.push_back(*t);
  }
  return out;
}

/// Whether the step reads this tensor of the program as its weight. The program's tensors are in
/// the first slots.
bool reads_as_weight(const Step& step, const Tensors& tensors, const Tensor& weight) {
  const int slot =
      value_of(step.node, step.target->name == "aten.addmm.default" ? "mat2" : "weight");
  return slot >= 0 && slot < std::ssize(tensors) &&
         tensors[static_cast<size_t>(slot)].handle() == weight.handle();
}

/// Whether a view keeps the last dimension, which has this size.
bool keeps_last(const Step& view, int64_t size) {
  const Argument* const sizes = find_argument(view.node, "size");
  const auto* const list = sizes == nullptr ? nullptr : std::get_if<std::vector<Integer>>(sizes);
  return list != nullptr && !list->empty() && list->back().value.number < 0 &&
         list->back().known == size;
}

/// The size of the last dimension of a layer's product; -1 for a convolution's.
int64_t width_of(const nn::LoraLayer& layer, const Tensor& weight) {
  if (layer.kind == nn::LoraLayer::Kind::kConv2d) return -1;
  const bool is_first = layer.kind == nn::LoraLayer::Kind::kLinear && !layer.is_transposed;
  return weight.dim(is_first ? 0 : 1);
}

/// The layer that a call is: one operator on the module's weight, and views as in GPT-2's Conv1D,
/// which make a matrix of what goes in and undo it behind the product.
///   unknown  the values before a run
std::optional<nn::LoraLayer> layer_in(const ModuleCall& call, const Steps& steps,
                                      const Tensors& tensors, std::vector<Held>& unknown) {
  const Tensor& weight = call.module->weight;
  if (!weight.defined()) return {};
  std::optional<nn::LoraLayer> out;
  for (int i = call.begin; i < call.end; ++i) {
    const Step& step = steps.steps[static_cast<size_t>(i)];
    const std::string_view name = step.target->name;
    if (name == "aten.sym_size.int" || name.starts_with("_operator.")) continue;
    if (name == "aten.view.default") {
      if (out && !keeps_last(step, width_of(*out, weight))) return {};
      continue;
    }
    if (out || !reads_as_weight(step, tensors, weight)) return {};
    try {
      out = lora_layer_of(Call(step, unknown, {}), name, weight);
    } catch (const DataError&) {  // sizes that only a run knows
      return {};
    }
    if (!out) return {};
  }
  return out;
}

bool is_same(const nn::LoraLayer& a, const nn::LoraLayer& b) {
  return a.kind == b.kind && a.is_transposed == b.is_transposed && a.conv.stride == b.conv.stride &&
         a.conv.pad == b.conv.pad && a.conv.dilation == b.conv.dilation &&
         a.padding_index == b.padding_index;
}

/// How often the steps, and the caller, read each tensor of the program.
std::unordered_map<const TensorImpl*, int> reads_of(const Steps& steps, const Tensors& tensors) {
  std::unordered_map<const TensorImpl*, int> out;
  const auto count = [&](const std::vector<int>& slots) {
    for (const int slot : slots) {
      if (slot < std::ssize(tensors)) ++out[tensors[static_cast<size_t>(slot)].handle().get()];
    }
  };
  for (const Step& step : steps.steps) count(slots_read_by(step));
  count(steps.outputs);
  return out;
}

}  // namespace

void note_layers(const Steps& steps, const Tensors& tensors) {
  std::unordered_set<Part*> known;
  std::unordered_map<const TensorImpl*, int> layer_calls;  // by weight
  std::vector<Held> unknown(static_cast<size_t>(steps.slots));
  for (const ModuleCall& call : steps.calls) {
    Part& part = *call.module;
    const bool is_first = known.insert(&part).second;
    const bool fits = call.inputs.size() == 1 && call.outputs.size() == 1;
    const auto layer = fits ? layer_in(call, steps, tensors, unknown) : std::nullopt;
    part.is_one_to_one = fits && (is_first || part.is_one_to_one);
    const bool same = is_first || (layer && part.layer && is_same(*layer, *part.layer));
    part.layer = same ? layer : std::nullopt;
    if (layer) ++layer_calls[part.weight.handle().get()];
  }
  // An adapter acts in the layer's own calls. Where others read the weight, merging would not be
  // the same.
  const auto reads = reads_of(steps, tensors);
  for (Part* const part : known) {
    if (!part->layer) continue;
    const TensorImpl* const weight = part->weight.handle().get();
    if (layer_calls.at(weight) != reads.at(weight)) part->layer.reset();
  }
}

std::vector<ModuleCall> module_calls(std::span<const Step> steps, FindModule find_module,
                                     std::span<const int> last, const std::vector<bool>& own) {
  return Finder(steps, find_module, last, own).run();
}

Watch::Watch(const Steps& steps) {
  for (const ModuleCall& call : steps.calls) {
    if (call.module->has_hooks()) calls_.push_back(&call);
  }
}

bool Watch::splits(int first, int last) const {
  const auto lies_between = [&](int step) { return first < step && step <= last; };
  return std::ranges::any_of(calls_, [&](const ModuleCall* call) {
    return lies_between(call->begin) || lies_between(call->end);
  });
}

void Watch::before(int step, const std::vector<Held>& held) {
  for (; next_ < calls_.size() && calls_[next_]->begin == step; ++next_) {
    open_.push_back({calls_[next_], tensors_in(calls_[next_]->inputs, held)});
  }
}

void Watch::after(int step, std::vector<Held>& held) {
  for (; !open_.empty() && open_.back().call->end == step + 1; open_.pop_back()) {
    const ModuleCall& call = *open_.back().call;
    const Tensors& inputs = open_.back().inputs;
    Tensors outputs = tensors_in(call.outputs, held);
    if (call.module->is_one_to_one && inputs.size() == 1 && outputs.size() == 1) {
      outputs[0] = call.module->replaced(inputs[0], outputs[0]);
      held[static_cast<size_t>(call.outputs[0])] = outputs[0];
    }
    call.module->run_call_hooks(inputs, outputs);
  }
}

}  // namespace lathe::jit::pt2
