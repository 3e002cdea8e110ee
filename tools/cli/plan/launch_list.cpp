// The table from ops to launches. Contract: launch_list.h.
#include "lathe/tools/cli/plan/launch_list.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include "lathe/ops/conv/conv2d_key.h"

namespace lathe::cli {
namespace {

using profile::Kind;

constexpr std::array<std::string_view, kLaunchKinds> kNames = {
    "convolutions", "matrix products", "batch norm, forward", "batch norm, backward",
    "element-wise", "pooling",         "reductions",          "loss",
    "optimiser"};

double bytes_of(const std::vector<TensorNote>& tensors) {
  double sum = 0;
  std::unordered_set<int64_t> seen;
  for (const TensorNote& t : tensors) {
    if (t.block < 0 || seen.insert(t.block).second) sum += static_cast<double>(t.bytes);
  }
  return sum;
}

double size_of(DType dtype, const Shape& shape) {
  return static_cast<double>(lathe::size_of(dtype)) * static_cast<double>(numel_of(shape));
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

LaunchKind kind_of(const std::string& name) {
  if (name.find("pool") != std::string::npos) return LaunchKind::kPooling;
  if (is_one_of(name, {"sum", "mean", "var", "std", "amax", "amin", "argmax", "norm", "softmax",
                       "log_softmax", "sum_to_shape", "layer_norm", "group_norm", "rms_norm"}))
    return LaunchKind::kReduction;
  if (is_one_of(name, {"matmul", "bmm", "mm", "mv", "addmm", "linear"})) return LaunchKind::kMatmul;
  return LaunchKind::kElementwise;
}

/// Makes the list, op by op.
class Launches {
 public:
  Launches(const StepRecording& step, const Settings& settings) : step_(step), settings_(settings) {
    skipped_.resize(step.ops.size());
    for (int i = step.first_op; i < static_cast<int>(step.ops.size());) i = visit(i);
  }
  std::vector<Launch> take() { return std::move(list_); }

 private:
  const OpNote& op_at(int i) const { return step_.ops[static_cast<size_t>(i)]; }

  /// Adds the launches of op i, after those of the ops inside it.   → the next op behind them
  int visit(int i) {
    op_ = &op_at(i);
    const bool skips = is_skipped(),
               first = op_->kind == Kind::kOp &&
                       is_one_of(op_->name, {"cross_entropy", "backward pass"});
    skipped_[static_cast<size_t>(i)] = skips;
    if (!skips && first) add();
    int next = i + 1;
    while (next < static_cast<int>(step_.ops.size()) && op_at(next).parent == i) next = visit(next);
    op_ = &op_at(i);
    if (!skips && !first) add();
    return next;
  }

  /// What only the CPU does: casts of weights, which half copies replace (autograd/half_copy.h),
  /// and whatever is inside a range that is skipped or that a launch of its own replaces.
  bool is_skipped() const {
    if (op_->parent >= step_.first_op) {
      const OpNote& outer = op_at(op_->parent);
      // On a GPU one call gives the gradients of a linear layer's weight and bias.
      if (outer.kind == Kind::kBackward && outer.name == "linear" && op_->name == "sum")
        return true;
      if (skipped_[static_cast<size_t>(op_->parent)] || outer.kind == Kind::kOptimizer ||
          outer.name == "GradScaler.update")
        return true;
    }
    if (op_->kind == Kind::kView) return true;
    if (op_->kind == Kind::kBackward) {
      const OpNote* const made = forward();
      return made != nullptr && is_weight_cast(*made);
    }
    return is_weight_cast(*op_);
  }

  /// The op whose gradient this is.
  const OpNote* forward() const {
    const auto at = step_.op_of_node.find(op_->node);
    return at == step_.op_of_node.end() ? nullptr : &op_at(at->second);
  }

  /// The layer of the op or of one around it, without the model's name.
  std::string layer() const {
    const OpNote* op = op_;
    while (op->layer.empty() && op->parent >= 0) op = &op_at(op->parent);
    return op->layer.substr(op->layer.find('.') + 1);
  }

  Launch& put(LaunchKind kind, std::string kernel, double read, double written) {
    Launch launch{.op = op_->kind == Kind::kBackward ? op_->name + " backward" : op_->name,
                  .layer = layer(),
                  .kernel = std::move(kernel),
                  .kind = kind,
                  .read_bytes = read,
                  .written_bytes = written};
    launch.tf32 = settings_.tf32.value_or(true);
    if (!op_->inputs.empty()) launch.dtype = op_->inputs[0].dtype;
    if (!op_->outputs.empty() && is_half(op_->outputs[0].dtype))
      launch.dtype = op_->outputs[0].dtype;
    return list_.emplace_back(std::move(launch));
  }

  void add() {
    if (op_->wraps) return;
    if (op_->kind == Kind::kOptimizer) return add_optimizer();
    if (op_->kind == Kind::kBackward) return add_backward();
    if (op_->name == "conv2d") return add_convolution();
    if (op_->name == "conv2d_input_grad") return add_input_grad();
    if (op_->name == "conv2d_weight_grad") return add_weight_grad();
    if (op_->name.starts_with("batch_norm")) return add_batch_norm();
    if (op_->name == "linear") return add_product();
    if (op_->name == "cross_entropy") return add_loss();
    if (op_->name == "backward pass") {
      put(LaunchKind::kElementwise, "pointwise", 0, 4);  // the gradient of the loss, 1
      return;
    }
    if (op_->name == "GradScaler.update") {
      put(LaunchKind::kOptimizer, "update_loss_scale_kernel", 40, 40);
      return;
    }
    if (op_->has_inner || op_->outputs.empty()) return;
    if (kind_of(op_->name) == LaunchKind::kMatmul) return add_product();
    if (is_view()) return;
    const LaunchKind kind = kind_of(op_->name);
    put(kind, kind == LaunchKind::kElementwise ? "pointwise" : op_->name, bytes_of(op_->inputs),
        written());
  }

  /// An op that gave its input's memory on.
  bool is_view() const {
    return std::ranges::all_of(op_->outputs, [&](const TensorNote& y) {
      return std::ranges::find(op_->inputs, y.block, &TensorNote::block) != op_->inputs.end();
    });
  }

  double written() const {
    // A max pool also writes the positions, i32, for its gradient.
    const double more = op_->name == "max_pool2d"
                            ? size_of(kI32, op_->outputs.empty() ? Shape{} : op_->outputs[0].shape)
                            : 0;
    return bytes_of(op_->outputs) + more;
  }

  /// Two launches where channels are filled up: zeros beside the values, and the values. Each
  /// writes parts of all sectors of the filled-up tensor.
  void add_padding(const Shape& from, const Shape& to, DType dtype) {
    if (from == to) return;
    const double old = size_of(dtype, from), all = size_of(dtype, to);
    put(LaunchKind::kElementwise, "pointwise", 0, all).extra_bytes = all;
    put(LaunchKind::kElementwise, "pointwise", old, all).extra_bytes = old + all;
  }

  DType half_or(DType dtype) const {
    return settings_.amp == "off" ? dtype : settings_.amp == "bf16" ? kBF16 : kF16;
  }

  Conv2dGeometry padded(const Shape& x, const Shape& w, const Shape& y, DType dtype) const {
    const Conv2dGeometry g{.N = x[0],
                           .C = x[1],
                           .H = x[2],
                           .W = x[3],
                           .K = w[0],
                           .R = w[2],
                           .S = w[3],
                           .P = y[2],
                           .Q = y[3],
                           .stride = 1,
                           .pad = 0,
                           .dilation = 1,
                           .groups = x[1] / w[1]};
    return conv2d_padded(g, settings_.layout == "nhwc" ? kChannelsLast : kContiguous, dtype);
  }

  void add_cudnn(const Conv2dGeometry& g, DType dtype, double read, double written) {
    Launch& launch = put(LaunchKind::kConvolution, "cuDNN", read, written);
    launch.library = true;
    launch.dtype = dtype;
    launch.flops = g.flops();
  }

  void add_convolution() {
    if (op_->outputs.empty() || op_->inputs[0].shape.size() != 4) return;
    const Shape &x = op_->inputs[0].shape, &w = op_->inputs[1].shape;
    const DType dtype = half_or(op_->inputs[0].dtype);
    const Conv2dGeometry g = padded(x, w, op_->outputs[0].shape, dtype);
    add_padding(x, g.x_shape(), dtype);
    add_padding(w, g.w_shape(), dtype);
    add_cudnn(g, dtype, size_of(dtype, g.x_shape()) + size_of(dtype, g.w_shape()),
              size_of(dtype, g.y_shape()));
  }

  void add_input_grad() {
    if (op_->outputs.empty()) return;
    const TensorNote &dy = op_->inputs[0], &w = op_->inputs[1], &dx = op_->outputs[0];
    const Conv2dGeometry g = padded(dx.shape, w.shape, dy.shape, dy.dtype);
    add_cudnn(g, dy.dtype, size_of(dy.dtype, g.y_shape()) + size_of(dy.dtype, g.w_shape()),
              size_of(dy.dtype, g.x_shape()));
    add_cut(g.x_shape(), dx);
  }

  void add_weight_grad() {
    if (op_->outputs.empty()) return;
    const TensorNote &dy = op_->inputs[0], &x = op_->inputs[1], &dw = op_->outputs[0];
    const Conv2dGeometry g = padded(x.shape, dw.shape, dy.shape, dy.dtype);
    add_padding(x.shape, g.x_shape(), dy.dtype);
    add_cudnn(g, dy.dtype, size_of(dy.dtype, g.y_shape()) + size_of(dy.dtype, g.x_shape()),
              size_of(dy.dtype, g.w_shape()));
    add_cut(g.w_shape(), dw);
  }

  /// The part of a filled-up result that is wanted.
  void add_cut(const Shape& from, const TensorNote& to) {
    if (from == to.shape) return;
    const double all = size_of(to.dtype, from), part = size_of(to.dtype, to.shape);
    put(LaunchKind::kElementwise, "pointwise", all, part).extra_bytes = all + part;
  }

  void add_batch_norm() {
    const double x = static_cast<double>(op_->inputs[0].bytes);
    const bool adds = op_->name == "batch_norm_add_relu";
    put(LaunchKind::kBatchNormForward, "stats_kernel", x, 0);
    put(LaunchKind::kBatchNormForward, "train_kernel", adds ? 2 * x : x, x).again_bytes = x;
  }

  void add_backward() {
    const OpNote* const made = forward();
    const int uses = step_.uses_of_node.contains(op_->node) ? step_.uses_of_node.at(op_->node) : 1;
    const bool norm = op_->name.starts_with("batch_norm");
    if (made == nullptr || made->inputs.empty()) return;
    const double y = made->outputs.empty() ? 0 : static_cast<double>(made->outputs[0].bytes);
    for (int i = norm ? 2 : 1; i < uses; ++i) put(LaunchKind::kElementwise, "pointwise", 2 * y, y);
    if (norm) {
      const bool adds = op_->name == "batch_norm_add_relu";
      const double x = static_cast<double>(made->inputs[0].bytes), second = uses > 1 ? x : 0;
      put(LaunchKind::kBatchNormBackward, "sums_kernel", (adds ? 3 : 2) * x + second, adds ? x : 0);
      const double read = 2 * x + (adds ? 0 : second);
      put(LaunchKind::kBatchNormBackward, "input_kernel", read, x).again_bytes = read;
    } else if (op_->name == "cross_entropy") {
      const double rows = 4 * size_of(kF32, made->inputs.back().shape);
      put(LaunchKind::kLoss, "backward_kernel", bytes_of(made->inputs) + rows,
          static_cast<double>(made->inputs[0].bytes));
    } else if (!op_->has_inner && op_->name == "max_pool2d") {
      put(LaunchKind::kPooling, "max_pool2d_scatter", y + size_of(kI32, made->outputs[0].shape),
          static_cast<double>(made->inputs[0].bytes));
    } else if (!op_->has_inner && !op_->outputs.empty() && y > 0 &&
               kind_of(op_->name) != LaunchKind::kElementwise &&
               !is_one_of(op_->name, {"sum", "mean", "linear"})) {
      put(kind_of(op_->name), op_->name, y, bytes_of(op_->outputs));
    }
    if (op_->name == "linear") add_linear_gradients(*made);
  }

  /// A matrix product by cuBLASLt. A result is a sum over the last dimension of the first factor.
  void add_product() {
    const size_t first = op_->name == "addmm" ? 1 : 0;
    if (op_->inputs.size() < first + 2 || op_->outputs.empty()) return;
    const TensorNote &a = op_->inputs[first], &y = op_->outputs[0];
    const double terms = a.shape.empty() ? 1 : static_cast<double>(a.shape[a.shape.size() - 1]);
    const double half = settings_.amp == "off" ? 1 : 0.5;  // weights are read as halves
    double read = 0;
    for (const TensorNote& t : op_->inputs)
      read += static_cast<double>(t.bytes) * (t.parameter ? half : 1);
    add_cublas(read, static_cast<double>(y.bytes),
               2 * terms * static_cast<double>(numel_of(y.shape)), y.dtype);
  }

  /// Those of the weight and the bias, in one call.
  void add_linear_gradients(const OpNote& made) {
    const TensorNote &x = made.inputs[0], &w = made.inputs[1], &y = made.outputs[0];
    const double products = 2 * static_cast<double>(numel_of(y.shape) * w.shape[1]);
    add_cublas(static_cast<double>(x.bytes + y.bytes), size_of(y.dtype, w.shape), products,
               y.dtype);
  }

  void add_cublas(double read, double written, double flops, DType dtype) {
    Launch& launch = put(LaunchKind::kMatmul, "cuBLASLt", read, written);
    launch.library = true;
    launch.flops = flops;
    launch.dtype = dtype;
  }

  void add_loss() {
    const TensorNote& target = op_->inputs.back();
    put(LaunchKind::kLoss, "range_check_kernel", static_cast<double>(target.bytes), 0);
    put(LaunchKind::kLoss, "forward_kernel", bytes_of(op_->inputs),
        4 * size_of(kF32, target.shape));
  }

  /// SGD with momentum over all parameters, in a launch for those with half gradients and one for
  /// the others; with a loss scale it looks at the gradients first, as GradScaler::step({.fused}).
  void add_optimizer() {
    const auto [halves, wide] = parameters();
    if (settings_.amp == "fp16") {
      if (wide > 0) put(LaunchKind::kOptimizer, "norm_parts_kernel", 4 * wide, 0);
      if (halves > 0) put(LaunchKind::kOptimizer, "norm_parts_kernel", 2 * halves, 0);
      put(LaunchKind::kOptimizer, "begin_step_kernel", 0, 0);
    }
    if (halves > 0) put(LaunchKind::kOptimizer, "update_kernel", 10 * halves, 10 * halves);
    if (wide > 0) put(LaunchKind::kOptimizer, "update_kernel", 12 * wide, 8 * wide);
  }

  /// How many numbers the parameters hold: those with half copies, and the others.
  std::pair<double, double> parameters() const {
    std::unordered_set<int64_t> seen;
    double halves = 0, wide = 0;
    for (size_t i = static_cast<size_t>(step_.first_op); i < step_.ops.size(); ++i) {
      const OpNote& op = step_.ops[i];
      const bool half = settings_.amp != "off" &&
                        (is_weight_cast(op) || is_one_of(op.name, {"conv2d", "linear"}));
      for (const TensorNote& t : op.inputs) {
        if (!t.parameter || !seen.insert(t.block).second) continue;
        (half ? halves : wide) += static_cast<double>(numel_of(t.shape));
      }
    }
    return {halves, wide};
  }

  const StepRecording& step_;
  const Settings& settings_;
  std::vector<bool> skipped_;
  std::vector<Launch> list_;
  const OpNote* op_ = nullptr;
};

}  // namespace

std::string_view name_of(LaunchKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::vector<Launch> launches_of(const StepRecording& recording, const Settings& settings) {
  return Launches(recording, settings).take();
}

}  // namespace lathe::cli
