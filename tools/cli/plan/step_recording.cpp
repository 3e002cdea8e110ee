// A watcher of ops and memory over a few small steps. Contract: step_recording.h.
#include "lathe/tools/cli/plan/step_recording.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "lathe/autograd/meta.h"
#include "lathe/autograd/node.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/storage.h"
#include "lathe/optim/optimizer.h"
#include "lathe/tools/cli/plan/op_notes.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/optimizers.h"
#include "lathe/tools/cli/training/random_batch.h"

namespace lathe::cli {
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

StepRecording record_small_step(const Settings& settings, int64_t batch) {
  const ModelShape shape{.classes = settings.classes, .in_channels = settings.in_channels};
  return record_small_step(settings, batch, [&] { return make_model(settings, shape); });
}

StepRecording record_small_step(const Settings& settings, int64_t batch,
                                FunctionRef<std::unique_ptr<nn::Module>()> make) {
  StepRecording recording{.batch = batch, .channels_last = settings.layout == "nhwc"};
  recording.half_copies = !is_one_of(settings.optimizer, {"lars", "lamb", "novograd"});
  StepWatcher watcher(recording);
  manual_seed(static_cast<uint64_t>(settings.seed));
  const ModelShape shape{.classes = settings.classes, .in_channels = settings.in_channels};
  const std::unique_ptr<nn::Module> model = make();
  model->train();
  Settings wide = settings;
  wide.lr = 1e-8;
  wide.weight_decay = 5e-4;
  const std::unique_ptr<optim::Optimizer> optimizer = make_optimizer(wide, *model);
  // No step may be skipped, as one with infinite gradients would be: a scale of 1, and bf16, which
  // has f16's size and f32's range.
  train::StepOptions options = step_options(settings);
  options.scaling->init_scale = options.scaling->min_scale = 1;
  options.accumulate = 1;
  if (wide.amp == "fp16") wide.amp = options.amp = "bf16";
  const RandomBatch made = random_batch(settings, shape, kCPU, batch);
  train::Step train_step(*model, *optimizer, loss_of(*model, wide), options);
  recording.steps_begin = recording.memory.size();
  for (int step = 0; step < 3; ++step) {
    recording.first_op = static_cast<int>(recording.ops.size());
    recording.last_step = recording.memory.size();
    train_step.forward({made.x, made.y}, {});
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

}  // namespace lathe::cli
