// Contract: op_notes.h.
#include "lathe/train/plan/op_notes.h"

#include <algorithm>
#include <unordered_set>

namespace lathe::plan {
namespace {

using profile::Kind;

const OpNote& op_at(const StepRecording& step, int i) { return step.ops[static_cast<size_t>(i)]; }

/// What an op does to its operands before its own work.
bool is_copy(const OpNote& op) { return is_one_of(op.name, {"cast", "contiguous", "clone"}); }

/// Ops that only give memory for another op to write.
bool is_creation(const OpNote& op) {
  return is_one_of(op.name, {"zeros", "ones", "full", "zeros_like", "ones_like", "full_like"});
}

}  // namespace

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

double bytes_of(const std::vector<TensorNote>& tensors) {
  double sum = 0;
  std::unordered_set<int64_t> seen;
  for (const TensorNote& t : tensors) {
    if (t.block < 0 || seen.insert(t.block).second) sum += static_cast<double>(t.bytes);
  }
  return sum;
}

double dense_bytes(DType dtype, const Shape& shape) {
  return static_cast<double>(lathe::size_of(dtype)) * static_cast<double>(numel_of(shape));
}

bool is_joint(const OpNote& backward, size_t k) {
  const auto has = [&](size_t input) {
    return std::ranges::find(backward.gradient_of, input) != backward.gradient_of.end();
  };
  return has(1 + 2 * k) && has(2 + 2 * k);
}

bool sums_in_product(const OpNote& backward) {
  if (!is_one_of(backward.name, {"linear", "mlp"})) return false;
  return std::ranges::any_of(backward.gradient_of, [&](size_t input) {
    return input % 2 == 1 && is_joint(backward, input / 2);
  });
}

BlockOps blocks_taken(const StepRecording& step) {
  BlockOps taken_in;
  for (const MemoryNote& note : step.memory) {
    if (note.taken) taken_in[note.block] = note.op;
  }
  return taken_in;
}

double own_results(const StepRecording& step, const BlockOps& taken_in, int i, int next) {
  std::unordered_set<int64_t> inner;
  for (int j = i + 1; j < next; ++j) {
    const OpNote& op = op_at(step, j);
    if (op.kind != Kind::kOp || is_creation(op)) continue;
    for (const TensorNote& y : op.outputs) inner.insert(y.block);
  }
  std::vector<TensorNote> own;
  for (const TensorNote& y : op_at(step, i).outputs) {
    const auto at = taken_in.find(y.block);
    if (at != taken_in.end() && at->second >= i && at->second < next && !inner.contains(y.block))
      own.push_back(y);
  }
  return bytes_of(own);
}

bool is_expanded_gradient(const StepRecording& step, int i) {
  const OpNote& op = op_at(step, i);
  if (!step.channels_last || op.name != "contiguous" || op.parent < 0 || op.inputs.empty())
    return false;
  const OpNote& outer = op_at(step, op.parent);
  const TensorNote& dy = op.inputs[0];
  const bool wants_residual =
      std::ranges::find(outer.gradient_of, size_t{1}) != outer.gradient_of.end();
  return outer.kind == Kind::kBackward && outer.name == "batch_norm_add_relu" && wants_residual &&
         dy.shape.size() == 4 && dy.shape[2] * dy.shape[3] > 1 &&
         static_cast<double>(dy.bytes) == dense_bytes(dy.dtype, {dy.shape[0], dy.shape[1]});
}

bool is_in_place(const StepRecording& step, int i, int next) {
  const OpNote& op = op_at(step, i);
  if (op.kind != Kind::kOp || !op.name.ends_with('_') || op.inputs.empty()) return false;
  for (int j = i + 1; j < next; ++j) {
    if (op_at(step, j).kind == Kind::kOp && !is_copy(op_at(step, j))) return false;
  }
  return true;
}

}  // namespace lathe::plan
