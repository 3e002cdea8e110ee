// A watcher of ops and memory over a few small steps. Contract: step_recording.h.
#include "lathe/train/plan/step_recording.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "lathe/autograd/meta.h"
#include "lathe/autograd/node.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/storage.h"
#include "lathe/train/plan/op_notes.h"

namespace lathe::plan {
namespace {

using profile::Kind;

class StepWatcher final : public profile::Watcher {
 public:
  explicit StepWatcher(StepRecording& to) : to_(to) {}

  TensorNote note_of(const Tensor& t) const {
    const Storage* const memory = t.impl().storage.get();
    const auto block = blocks_.find(memory);
    return {.dtype = t.dtype(),
            .shape = t.shape(),
            .bytes = std::min(t.bytes(), memory->bytes()),
            .parameter = t.requires_grad() && t.is_leaf(),
            .block = block == blocks_.end() ? -1 : block->second};
  }

  void begins() override {
    const auto open = open_ops();
    stack_.resize(open.size() - 1, -1);
    OpNote op{.name = open.back().name,
              .kind = open.back().kind,
              .parent = stack_.empty() ? -1 : stack_.back(),
              .layer = layer()};
    for (const Tensor& t : open.back().inputs) {
      if (t.defined()) op.inputs.push_back(note_of(t));
    }
    if (op.parent >= 0 && op.kind == Kind::kOp && at(op.parent).kind == Kind::kOp &&
        at(op.parent).name == op.name)
      at(op.parent).wraps = true;
    stack_.push_back(static_cast<int>(to_.ops.size()));
    to_.ops.push_back(std::move(op));
  }

  void output(const Tensor& y) override {
    if (const int op = innermost(); op >= 0 && y.defined()) at(op).outputs.push_back(note_of(y));
  }

  void node(const char* name, uint64_t number) override {
    const int op = innermost();
    if (op < 0) return;
    // An op may record several nodes; the one of its name counts.
    if (at(op).node == 0 || at(op).name == name) at(op).node = number;
    to_.op_of_node[number] = op;
  }

  void connected(uint64_t number, std::span<const profile::Input> inputs,
                 std::span<const profile::Input>) override {
    std::vector<uint64_t>& edges = edges_[number];
    const int op = innermost();
    const bool counts = op >= 0 && at(op).node == number;
    if (counts) at(op).operands.clear();
    for (const profile::Input& input : inputs) {
      edges.push_back(0);
      if (counts)
        at(op).operands.push_back(input.tensor->defined() ? note_of(*input.tensor) : TensorNote{});
      if (!input.tensor->defined() || !input.tensor->requires_grad()) continue;
      const autograd::Edge edge = autograd::gradient_edge(*input.tensor);
      if (!edge.node) continue;
      edges.back() = edge.node->number;
      ++to_.uses_of_node[edge.node->number];
    }
  }

  void backward(uint64_t number) override {
    const int op = innermost();
    if (op < 0) return;
    at(op).node = number;
    const auto made = to_.op_of_node.find(number);
    if (made != to_.op_of_node.end()) at(op).layer = at(made->second).layer;
  }

  void gradient(const char*, uint64_t number, size_t input, const Tensor& dx,
                const Tensors&) override {
    const TensorNote note = note_of(dx);
    if (const int op = innermost(); op >= 0) {
      at(op).outputs.push_back(note);
      at(op).gradient_of.push_back(input);
    }
    const auto edges = edges_.find(number);
    if (edges == edges_.end() || input >= edges->second.size()) return;
    const uint64_t to = edges->second[input];
    if (to == 0) return;
    const int earlier = arrived_[to]++;
    if (earlier == 0) to_.first_gradients[to] = note.block;
    if (earlier == 1) to_.second_gradients[note.block] = to;
  }

  void memory(const Storage& storage, bool taken) override {
    if (taken) blocks_[&storage] = next_block_++;
    const auto block = blocks_.find(&storage);
    if (block == blocks_.end()) return;  // it was there before
    to_.memory.push_back({block->second, storage.bytes(), taken, innermost(),
                          storage.tag() == profile::MemoryTag::kWorkspace});
    if (!taken) blocks_.erase(block);
  }

  /// The innermost open range; -1: there is none.
  int innermost() {
    stack_.resize(std::min(stack_.size(), open_ops().size()));
    return stack_.empty() ? -1 : stack_.back();
  }

 private:
  OpNote& at(int op) { return to_.ops[static_cast<size_t>(op)]; }

  StepRecording& to_;
  std::vector<int> stack_;  // the open ranges
  std::unordered_map<const Storage*, int64_t> blocks_;
  std::unordered_map<uint64_t, std::vector<uint64_t>>
      edges_;                                  // of a node: those of its inputs, or 0
  std::unordered_map<uint64_t, int> arrived_;  // gradients at a node
  int64_t next_block_ = 0;
};

}  // namespace

bool is_replaced_cast(const StepRecording& step, const OpNote& op) {
  return step.half_copies && op.name == "cast" && op.kind == Kind::kOp && !op.inputs.empty() &&
         op.inputs[0].parameter && op.inputs[0].dtype == kF32;
}

StepRecording record_small_step(const train::StepSetup& setup, int64_t batch) {
  StepRecording recording{.batch = batch, .channels_last = setup.channels_last};
  StepWatcher watcher(recording);
  const std::unique_ptr<nn::Module> model = setup.model();
  model->train();
  const std::unique_ptr<optim::Optimizer> optimizer = setup.optimizer(*model);
  recording.amp = setup.options.amp;
  recording.clip_grad_norm = setup.options.clip_grad_norm;
  recording.optimizer = optimizer->name();
  recording.half_copies =
      !is_one_of(recording.optimizer, {"LARS", "LAMB", "NovoGrad", "Adafactor"});
  recording.momentum = is_one_of(recording.optimizer, {"SGD", "RMSprop"}) &&
                       optimizer->hyper_parameter("momentum") != 0;
  if (recording.optimizer == "Muon") {
    for (size_t g = 0; g < optimizer->num_groups(); ++g) {
      const auto is = [&](const char* option) {
        return optimizer->hyper_parameter(option, g) != 0;
      };
      const bool matrices = !is("use_adamw") && !is("use_sgd");
      recording.group_rules.emplace_back(matrices ? "Muon" : is("use_sgd") ? "SGD" : "AdamW");
      if (matrices && is("normalize")) recording.normalizes = true;
      if (is("use_sgd") && is("momentum")) recording.momentum = true;
    }
  }
  // No step may be skipped, as one with infinite gradients would be: a scale of 1, and bf16, which
  // has f16's size and f32's range.
  train::StepOptions options = setup.options;
  if (!options.scaling)
    options.scaling = optim::GradScalerOptions{.enabled = setup.options.amp == "fp16"};
  options.scaling->init_scale = options.scaling->min_scale = 1;
  options.accumulate = 1;
  if (options.amp == "fp16") options.amp = "bf16";
  const Tensors made = setup.batch(batch, kCPU);
  train::Step train_step(*model, *optimizer, setup.loss(*model), options);
  recording.steps_begin = recording.memory.size();
  for (int step = 0; step < 3; ++step) {
    recording.first_op = static_cast<int>(recording.ops.size());
    recording.last_step = recording.memory.size();
    train_step.forward(made, {});
    train_step.backward();
    recording.parameters.clear();
    for (size_t g = 0; g < optimizer->num_groups(); ++g) {
      auto& notes = recording.parameters.emplace_back();
      for (const Tensor& p : optimizer->params(g)) {
        if (p.grad().defined()) notes.push_back(watcher.note_of(p));
      }
    }
    train_step.update();
  }
  return recording;
}

}  // namespace lathe::plan
