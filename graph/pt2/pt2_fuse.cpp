// find_fusions() and run_fused().
#include "lathe/graph/pt2/pt2_fuse.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "lathe/graph/pt2/pt2_layers.h"
#include "lathe/graph/pt2/pt2_memory.h"
#include "lathe/graph/pt2/pt2_steps.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/batch_norm_conv2d.h"

namespace lathe::jit::pt2 {

namespace {

// From the norm to the last step. The shortcut of a residual block lies in between; a hostile file
// could have every fusion reach over the whole program.
constexpr int kFarthest = 64;

/// The slot of an argument that is one value; -1 if it is something else.
int slot_of(const Step& step, std::string_view name) { return value_of(step.node, name); }

/// The slot of the only result; -1 if there is none, or several.
int result_of(const Step& step) {
  return step.node.outputs.size() == 1 ? step.node.outputs[0].number : -1;
}

bool is_a(const Step& step, std::string_view target) { return step.target->name == target; }
bool is_norm(const Step& step) { return is_a(step, "aten.batch_norm.default"); }
bool is_relu_of(const Step& step, int slot) {
  return (is_a(step, "aten.relu.default") || is_a(step, "aten.relu_.default")) &&
         slot_of(step, "self") == slot;
}

/// The other operand of a sum with `slot`; -1 if the step is none.
int added_to(const Step& step, int slot) {
  const bool writes = is_a(step, "aten.add_.Tensor");
  if (!writes && !is_a(step, "aten.add.Tensor")) return -1;
  if (const Argument* const alpha = find_argument(step.node, "alpha")) {
    const auto* const number = std::get_if<Integer>(alpha);
    if (number == nullptr || number->value.number >= 0 || number->known != 1) return -1;
  }
  const int self = slot_of(step, "self"), other = slot_of(step, "other");
  if (self == slot) return other;
  return other == slot && !writes ? self : -1;
}

class FusionFinder {
 public:
  FusionFinder(const Steps& steps, Memory& memory)
      : steps_(steps.steps), memory_(memory), readers_(static_cast<size_t>(steps.slots)) {
    for (int i = 0; i < end(); ++i) {
      for (const int slot : slots_read_by(at(i))) readers_[static_cast<size_t>(slot)].push_back(i);
    }
    for (const int slot : steps.outputs) readers_[static_cast<size_t>(slot)].push_back(end());
  }

  std::vector<Fusion> run() {
    std::vector<Fusion> out;
    for (int i = 0; i < end(); ++i) {
      if (!is_norm(at(i))) continue;
      const Fusion fusion = fusion_from(i);
      if (fusion.relu < 0) continue;
      if (fusion.add >= 0) added_.insert(fusion.add);
      out.push_back(fusion);
    }
    return out;
  }

 private:
  const Step& at(int i) const { return steps_[static_cast<size_t>(i)]; }
  int end() const { return static_cast<int>(steps_.size()); }

  /// Without a relu: there is none.
  Fusion fusion_from(int norm) {
    Fusion out{.norm = norm};
    int before = norm, next = sole_reader(norm);
    if (next >= 0 && added_to(at(next), result_of(at(norm))) >= 0 && !added_.contains(next)) {
      out.add = before = next;
      next = sole_reader(before);
    }
    if (next < 0 || !is_relu_of(at(next), result_of(at(before)))) return {};
    out.relu = next;
    if (out.add < 0) {
      const int conv = sole_reader(out.relu);
      const bool takes = conv >= 0 && is_a(at(conv), "aten.conv2d.default") &&
                         slot_of(at(conv), "input") == result_of(at(out.relu));
      if (takes) out.conv = conv;
      if (takes && !can_wait(out)) out.conv = -1;
    }
    return can_wait(out) ? out : Fusion{};
  }

  /// The step in the same scope that alone reads the result of `from`, and reads it once; or -1.
  int sole_reader(int from) const {
    const int slot = result_of(at(from));
    if (slot < 0) return -1;
    const std::vector<int>& readers = readers_[static_cast<size_t>(slot)];
    auto next = std::ranges::upper_bound(readers, from);
    if (next == readers.end() || *next == end()) return -1;
    const int reader = *next++;
    // An in-place step's result has the same slot.
    const bool writes = result_of(at(reader)) == slot;
    if (next != readers.end() && (*next == reader || !writes)) return -1;
    return at(reader).node.scope == at(from).node.scope ? reader : -1;
  }

  bool can_wait(const Fusion& fusion) {
    if (fusion.last() - fusion.norm > kFarthest) return false;
    const auto steps = fusion.steps();
    for (const int waiting : {fusion.norm, fusion.add}) {
      if (waiting < 0) continue;
      for (int i = waiting + 1; i < fusion.last(); ++i) {
        const bool is_other = std::ranges::find(steps, i) == steps.end();
        if (is_other && disturbs(at(i), at(waiting))) return false;
      }
    }
    return true;
  }

  bool disturbs(const Step& other, const Step& waiting) {
    // A tensor of the program or its caller can share its storage with any other of them.
    const bool writes = other.target->kind == Kind::kWrite;
    if (writes && memory_.is_outside(result_of(other))) return true;
    return meet(written_by(other), slots_read_by(waiting)) ||
           meet(slots_read_by(other), written_by(waiting));
  }

  bool meet(const std::vector<int>& a, const std::vector<int>& b) {
    return std::ranges::any_of(a, [&](int x) {
      return std::ranges::any_of(b, [&](int y) { return memory_.find(x) == memory_.find(y); });
    });
  }

  static std::vector<int> written_by(const Step& step) {
    if (step.target->kind == Kind::kWrite) return {result_of(step)};
    if (!is_norm(step)) return {};
    std::vector<int> out;
    for (const int slot :
         {slot_of(step, "running_mean"), slot_of(step, "running_var"), step.num_batches}) {
      if (slot >= 0) out.push_back(slot);
    }
    return out;
  }

  const std::vector<Step>& steps_;
  Memory& memory_;
  std::vector<std::vector<int>> readers_;  // of each slot: the steps, in order; end(): a result
  std::unordered_set<int> added_;          // sums that belong to a fusion
};

}  // namespace

std::vector<Fusion> find_fusions(const Steps& steps, Memory& memory) {
  return FusionFinder(steps, memory).run();
}

int run_fused(const Fusion& fusion, const std::vector<Step>& steps, std::vector<Held>& held,
              const Setting& setting) {
  const auto call = [&](int step) { return Call(steps[static_cast<size_t>(step)], held, setting); };
  // relu_ writes into the norm's result, which is not made.
  const auto set_result = [&](int step, Tensor y) {
    held[static_cast<size_t>(result_of(steps[static_cast<size_t>(step)]))] = std::move(y);
  };
  const Call norm = call(fusion.norm);
  const Tensor x = norm.tensor("input");
  const BatchNormTensors tensors{norm.maybe("weight"), norm.maybe("bias"),
                                 norm.maybe("running_mean"), norm.maybe("running_var")};
  const auto& [weight, bias, mean, var] = tensors;
  const BatchNormOptions how = batch_norm_options(norm);
  if (fusion.add >= 0) {
    const Step& add = steps[static_cast<size_t>(fusion.add)];
    const int slot = added_to(add, result_of(steps[static_cast<size_t>(fusion.norm)]));
    const auto* const residual = std::get_if<Tensor>(&held[static_cast<size_t>(slot)]);
    const bool fits = residual != nullptr && residual->defined() &&
                      residual->shape() == x.shape() && residual->dtype() == x.dtype() &&
                      residual->device() == x.device();
    if (!fits) return fusion.norm;
    set_result(fusion.relu, batch_norm_add_relu(x, *residual, weight, bias, mean, var, how));
    return fusion.relu + 1;
  }
  if (fusion.conv >= 0) {
    const Call conv = call(fusion.conv);
    const Tensor w = conv.tensor("weight");
    NormReluConv2dCall all{x, amp::cast(amp::kHalf, w), tensors, how, conv2d_options(conv)};
    all.conv.bias = conv.maybe("bias");
    if (norm_relu_conv2d_fuses(all)) {
      set_result(fusion.conv, batch_norm_relu_conv2d(x, tensors, w, how, all.conv));
      return fusion.conv + 1;
    }
  }
  set_result(fusion.relu, batch_norm_relu(x, weight, bias, mean, var, how));
  return fusion.conv >= 0 ? fusion.conv : fusion.relu + 1;
}

}  // namespace lathe::jit::pt2
