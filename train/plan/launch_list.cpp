// The table from ops to launches. Contract: launch_list.h.
#include "lathe/train/plan/launch_list.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include "lathe/core/math_mode.h"
#include "lathe/ops/conv/search/conv2d_key.h"
#include "lathe/train/plan/op_notes.h"
#include "lathe/train/plan/optimizer_launches.h"

namespace lathe::plan {
namespace {

using profile::Kind;

constexpr std::array<std::string_view, kLaunchKinds> kNames = {
    "convolutions", "matrix products", "batch norm, forward", "batch norm, backward",
    "element-wise", "pooling",         "reductions",          "loss",
    "optimiser"};

LaunchKind kind_of(const std::string& name) {
  if (name.find("pool") != std::string::npos) return LaunchKind::kPooling;
  if (is_one_of(name, {"sum", "mean", "var", "std", "amax", "amin", "argmax", "norm", "softmax",
                       "log_softmax", "sum_to_shape", "layer_norm", "group_norm", "rms_norm"}))
    return LaunchKind::kReduction;
  if (is_one_of(name, {"matmul", "bmm", "mm", "mv", "addmm", "linear"})) return LaunchKind::kMatmul;
  return LaunchKind::kElementwise;
}

/// tf32() for a scope: what conv2d_padded (ops/conv/search/conv2d_key.h) asks.
class Tf32Scope {
 public:
  explicit Tf32Scope(bool on) : before_(tf32()) { set_tf32(on); }
  ~Tf32Scope() { set_tf32(before_); }
  Tf32Scope(const Tf32Scope&) = delete;
  Tf32Scope& operator=(const Tf32Scope&) = delete;

 private:
  const bool before_;
};

/// Makes the list, op by op.
class Launches {
 public:
  Launches(const StepRecording& step, const LaunchOptions& options)
      : step_(step), tf32_(options.tf32), taken_in_(blocks_taken(step)) {
    skipped_.resize(step.ops.size());
    for (int i = step.first_op; i < static_cast<int>(step.ops.size());) i = visit(i);
  }
  std::vector<Launch> take() { return std::move(list_); }

 private:
  const OpNote& op_at(int i) const { return step_.ops[static_cast<size_t>(i)]; }

  /// Adds the launches of op i, after those of the ops inside it.   → the next op behind them
  int visit(int i) {
    op_ = &op_at(i);
    const bool skips = is_skipped() || is_expanded_gradient(step_, i),
               first = op_->kind == Kind::kOp &&
                       is_one_of(op_->name, {"cross_entropy", "backward pass"});
    skipped_[static_cast<size_t>(i)] = skips;
    const bool updates = op_->kind == Kind::kOptimizer && !in_update_;
    if (!skips && updates) add_optimizer(true);
    if (!skips && first) add(i, i + 1);
    if (updates) in_update_ = true;
    int next = i + 1;
    while (next < static_cast<int>(step_.ops.size()) && op_at(next).parent == i) next = visit(next);
    if (updates) in_update_ = false;
    op_ = &op_at(i);
    if (!skips && !first) add(i, next);
    return next;
  }

  /// What only the CPU does: casts of weights, which half copies replace (autograd/half_copy.h),
  /// and whatever is inside a range that is skipped or that a launch of its own replaces.
  bool is_skipped() const {
    if (op_->parent >= step_.first_op) {
      const OpNote& outer = op_at(op_->parent);
      if (outer.kind == Kind::kBackward && op_->name == "sum" && sums_in_product(outer))
        return true;
      const bool updates = outer.kind == Kind::kOptimizer && step_.optimizer != "Muon" &&
                           step_.optimizer != "Adafactor";
      if (skipped_[static_cast<size_t>(op_->parent)] || updates ||
          outer.name == "GradScaler.update")
        return true;
    }
    if (op_->kind == Kind::kBackward) {
      const OpNote* const made = forward();
      return made != nullptr && is_replaced_cast(step_, *made);
    }
    return is_replaced_cast(step_, *op_);
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
    if (in_update_ && kind != LaunchKind::kMatmul) kind = LaunchKind::kOptimizer;
    Launch launch{.number = static_cast<int>(op_ - step_.ops.data()),
                  .op = op_->kind == Kind::kBackward ? op_->name + " backward" : op_->name,
                  .layer = layer(),
                  .kernel = std::move(kernel),
                  .kind = kind,
                  .read_bytes = read,
                  .written_bytes = written};
    launch.tf32 = tf32();
    if (!op_->inputs.empty()) launch.dtype = op_->inputs[0].dtype;
    if (!op_->outputs.empty() && is_half(op_->outputs[0].dtype))
      launch.dtype = op_->outputs[0].dtype;
    return list_.emplace_back(std::move(launch));
  }

  /// The launches of op i, whose inner ranges end before `next`.
  void add(int i, int next) {
    if (op_->wraps || op_->kind == Kind::kView) return;
    if (op_->kind == Kind::kOptimizer) {  // the optimiser may stand inside its loss scaler
      if (!in_update_) add_optimizer(false);
      return;
    }
    if (op_->kind == Kind::kBackward) return add_backward(i, next);
    if (op_->name == "conv2d") return add_convolution();
    if (op_->name == "conv2d_input_grad") return add_input_grad();
    if (op_->name == "conv2d_weight_grad") return add_weight_grad();
    if (op_->name.starts_with("batch_norm")) return add_batch_norm();
    if (op_->name == "linear" && op_->inputs.size() > 1) return add_product();
    if (is_one_of(op_->name, {"linear", "mlp"})) return add_layers();
    if (op_->name == "cross_entropy") return add_loss();
    if (op_->name == "backward pass") {
      put(LaunchKind::kElementwise, "pointwise", 0, 4);  // the gradient of the loss, 1
      return;
    }
    if (op_->name == "GradScaler.update") {
      put(LaunchKind::kOptimizer, "update_loss_scale_kernel", 40, 40);
      return;
    }
    if (own_results(step_, taken_in_, i, next) == 0 && !is_in_place(step_, i, next)) return;
    const LaunchKind kind = kind_of(op_->name);
    if (kind == LaunchKind::kMatmul) return add_product();
    put(kind, kind == LaunchKind::kElementwise ? "pointwise" : op_->name, bytes_of(op_->inputs),
        written());
  }

  double written() const {
    // A max pool also writes the positions, i32, for its gradient.
    const double more =
        op_->name == "max_pool2d"
            ? dense_bytes(kI32, op_->outputs.empty() ? Shape{} : op_->outputs[0].shape)
            : 0;
    return bytes_of(op_->outputs.empty() ? op_->inputs : op_->outputs) + more;
  }

  /// Two launches where channels are filled up: zeros beside the values, and the values. Each
  /// writes parts of all sectors of the filled-up tensor.
  void add_padding(const Shape& from, const Shape& to, DType dtype) {
    if (from == to) return;
    const double old = dense_bytes(dtype, from), all = dense_bytes(dtype, to);
    put(LaunchKind::kElementwise, "pointwise", 0, all).extra_bytes = all;
    put(LaunchKind::kElementwise, "pointwise", old, all).extra_bytes = old + all;
  }

  DType half_or(DType dtype) const {
    return step_.amp == "off" ? dtype : step_.amp == "bf16" ? kBF16 : kF16;
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
    return conv2d_padded(g, step_.channels_last ? kChannelsLast : kContiguous, dtype);
  }

  void add_cudnn(const Conv2dGeometry& g, DType dtype, double read, double written) {
    Launch& launch = put(LaunchKind::kConvolution, "cuDNN", read, written);
    launch.library = true;
    launch.dtype = dtype;
    launch.flops = g.flops();
  }

  /// False for an op of the program's own that has the name of a convolution.
  bool has_convolution() const { return op_->inputs.size() > 1 && !op_->outputs.empty(); }

  void add_convolution() {
    if (!has_convolution() || op_->inputs[0].shape.size() != 4) return;
    const Shape &x = op_->inputs[0].shape, &w = op_->inputs[1].shape;
    const DType dtype = half_or(op_->inputs[0].dtype);
    const Conv2dGeometry g = padded(x, w, op_->outputs[0].shape, dtype);
    add_padding(x, g.x_shape(), dtype);
    add_padding(w, g.w_shape(), dtype);
    add_cudnn(g, dtype, dense_bytes(dtype, g.x_shape()) + dense_bytes(dtype, g.w_shape()),
              dense_bytes(dtype, g.y_shape()));
    const bool has_bias = op_->inputs.size() > 2;
    list_.back().fuses = suits_fused(g, x, w, dtype) && !has_bias;
  }

  bool suits_fused(const Conv2dGeometry& g, const Shape& x, const Shape& w, DType dtype) const {
    return dtype == kF16 && step_.channels_last && g.groups == 1 && x[1] % 8 == 0 &&
           w[0] % 8 == 0 && std::max(g.R, g.S) <= 5;
  }

  void add_input_grad() {
    if (!has_convolution()) return;
    const TensorNote &dy = op_->inputs[0], &w = op_->inputs[1], &dx = op_->outputs[0];
    const Conv2dGeometry g = padded(dx.shape, w.shape, dy.shape, dy.dtype);
    add_cudnn(g, dy.dtype, dense_bytes(dy.dtype, g.y_shape()) + dense_bytes(dy.dtype, g.w_shape()),
              dense_bytes(dy.dtype, g.x_shape()));
    const bool strided = dy.shape[2] != dx.shape[2] || dy.shape[3] != dx.shape[3];
    list_.back().fuses = suits_fused(g, dx.shape, w.shape, half_or(dy.dtype)) && !strided;
    add_cut(g.x_shape(), dx);
  }

  void add_weight_grad() {
    if (!has_convolution()) return;
    const TensorNote &dy = op_->inputs[0], &x = op_->inputs[1], &dw = op_->outputs[0];
    const Conv2dGeometry g = padded(x.shape, dw.shape, dy.shape, dy.dtype);
    add_padding(x.shape, g.x_shape(), dy.dtype);
    add_cudnn(g, dy.dtype, dense_bytes(dy.dtype, g.y_shape()) + dense_bytes(dy.dtype, g.x_shape()),
              dense_bytes(dy.dtype, g.w_shape()));
    add_cut(g.w_shape(), dw);
  }

  /// The part of a filled-up result that is wanted.
  void add_cut(const Shape& from, const TensorNote& to) {
    if (from == to.shape) return;
    const double all = dense_bytes(to.dtype, from), part = dense_bytes(to.dtype, to.shape);
    put(LaunchKind::kElementwise, "pointwise", all, part).extra_bytes = all + part;
  }

  void add_batch_norm() {
    if (op_->inputs.empty()) return;
    const double x = static_cast<double>(op_->inputs[0].bytes);
    if (op_->name == "batch_norm_again") {  // recomputed (autograd/recompute.h)
      put(LaunchKind::kBatchNormForward, "apply_kernel", bytes_of(op_->inputs), x);
      return;
    }
    const bool adds = op_->name == "batch_norm_add_relu";
    put(LaunchKind::kBatchNormForward, "stats_kernel", x, 0);
    Launch& train = put(LaunchKind::kBatchNormForward, "train_kernel", adds ? 2 * x : x, x);
    train.again_bytes = x;
    if (adds) train.masked_bytes = masked_bytes(op_->inputs[0]);
  }

  /// Bits stand for values only where a packet of eight halves is one thread's: neighbours in a
  /// pixel's channels, or in a plane.
  double masked_bytes(const TensorNote& x) const {
    if (!is_half(x.dtype) || x.shape.size() < 2) return 0;
    int64_t plane = 1;
    for (int d = 2; d < x.shape.size(); ++d) plane *= x.shape[d];
    const bool by_pixel = step_.channels_last || plane == 1;
    return (by_pixel ? x.shape[1] : plane) % 8 == 0 ? static_cast<double>(x.bytes) : 0;
  }

  void add_backward(int i, int next) {
    const double own = own_results(step_, taken_in_, i, next);  // that no op inside computed
    const OpNote* const made = forward();
    const int uses = step_.uses_of_node.contains(op_->node) ? step_.uses_of_node.at(op_->node) : 1;
    const bool norm = op_->name.starts_with("batch_norm");
    if (made == nullptr || made->inputs.empty()) return;
    const double y = made->outputs.empty() ? 0 : static_cast<double>(made->outputs[0].bytes);
    const double x = static_cast<double>(made->inputs[0].bytes);
    for (int use = norm ? 2 : 1; use < uses; ++use)
      put(LaunchKind::kElementwise, "pointwise", 2 * y, y);
    if (norm) {
      const bool adds = op_->name == "batch_norm_add_relu";
      const double second = uses > 1 ? x : 0;
      Launch& sums = put(LaunchKind::kBatchNormBackward, "sums_kernel",
                         (adds ? 2 : 1) * x + gradient_bytes(i, next, x) + second, adds ? x : 0);
      if (adds) sums.masked_bytes = masked_bytes(made->inputs[0]);
      const double read = 2 * x + (adds ? 0 : second);
      put(LaunchKind::kBatchNormBackward, "input_kernel", read, x).again_bytes = read;
    } else if (op_->name == "cross_entropy") {
      const double rows = 4 * dense_bytes(kF32, made->inputs.back().shape);
      put(LaunchKind::kLoss, "backward_kernel", bytes_of(made->inputs) + rows, x);
    } else if (is_one_of(op_->name, {"linear", "mlp"})) {
      add_layers_backward(*made);
    } else if (own > 0) {
      add_own_gradient(*made, y, own);
    }
  }

  /// What batch norm's backward, op i, reads of its first gradient, of which `dense` values count.
  double gradient_bytes(int i, int next, double dense) const {
    for (int j = i + 1; j < next; ++j) {
      if (is_expanded_gradient(step_, j)) return static_cast<double>(op_at(j).inputs[0].bytes);
    }
    return dense;
  }

  /// Of a gradient that is no op of its own: from dy, which is as large as y, and what the op kept.
  void add_own_gradient(const OpNote& made, double y, double own) {
    const LaunchKind kind = kind_of(op_->name);
    const std::string kernel = kind == LaunchKind::kElementwise ? "pointwise" : op_->name;
    if (op_->name == "max_pool2d") {
      put(kind, "max_pool2d_scatter", y + dense_bytes(kI32, made.outputs[0].shape), own);
    } else if (is_one_of(op_->name, {"layer_norm", "group_norm"})) {
      put(kind, "input", 2 * y, y);
      if (op_->gradient_of.size() > 1) put(kind, "params_kernel", 2 * y, 0);
    } else if (op_->name.ends_with("softmax")) {
      put(kind, kernel, 2 * y, own);  // y itself and dy
    } else if (kind == LaunchKind::kPooling ||
               is_one_of(op_->name, {"dropout", "embedding", "index_select", "gather", "pad"})) {
      put(kind, kernel, y, own);  // a linear map: dy alone
    } else {
      put(kind, kernel, y + bytes_of(made.inputs), own);
    }
  }

  /// A matrix product by cuBLASLt, whose factors are read in its dtype: half weights under AMP. A
  /// result is a sum over the last dimension of the first factor.
  void add_product() {
    const size_t first = op_->name == "addmm" ? 1 : 0;
    if (op_->inputs.size() < first + 2 || op_->outputs.empty()) return;
    const TensorNote &a = op_->inputs[first], &y = op_->outputs[0];
    const double terms = a.shape.empty() ? 1 : static_cast<double>(a.shape[a.shape.size() - 1]);
    double read = 0;
    for (size_t i = first; i < op_->inputs.size(); ++i) {
      const TensorNote& t = op_->inputs[i];
      read += static_cast<double>(t.bytes) * dense_bytes(y.dtype, {}) / dense_bytes(t.dtype, {});
    }
    add_cublas(read, static_cast<double>(y.bytes),
               2 * terms * static_cast<double>(numel_of(y.shape)), y.dtype);
  }

  /// Calls f(k, rows, w) for each layer of a linear layer, or of several, from first to last.
  template <class F>
  static void for_each_layer(const OpNote& made, const F& f) {
    if (made.operands.size() < 2 || made.operands[0].shape.size() != 2) return;
    for (size_t k = 0; 1 + 2 * k < made.operands.size(); ++k) {
      const Shape& w = made.operands[1 + 2 * k].shape;
      if (w.size() == 2) f(k, made.operands[0].shape[0], w);
    }
  }

  /// Linear layers with activations (ops/mlp.h), which are one op: a product each.
  void add_layers() {
    for_each_layer(*op_, [&](size_t, int64_t rows, const Shape& w) {
      const DType dtype = op_->operands[0].dtype;
      add_cublas(dense_bytes(dtype, {rows, w[1]}) + dense_bytes(dtype, w),
                 dense_bytes(dtype, {rows, w[0]}), 2 * static_cast<double>(rows * w[0] * w[1]),
                 dtype);
    });
  }

  /// The gradients of linear layers that are no ops: those of a weight and a bias in one call, and
  /// those of what is between two layers.
  void add_layers_backward(const OpNote& made) {
    const auto needs_below = [&](size_t k) {
      return std::ranges::any_of(op_->gradient_of, [&](size_t i) { return i <= 2 * k; });
    };
    for_each_layer(made, [&](size_t k, int64_t rows, const Shape& w) {
      const DType dtype = made.operands[0].dtype;
      const double x = dense_bytes(dtype, {rows, w[1]}), y = dense_bytes(dtype, {rows, w[0]}),
                   weight = dense_bytes(dtype, w),
                   flops = 2 * static_cast<double>(rows * w[0] * w[1]);
      if (is_joint(*op_, k)) add_cublas(x + y, weight, flops, dtype);
      if (k > 0 && needs_below(k)) add_cublas(y + weight, x, flops, dtype);
    });
  }

  void add_cublas(double read, double written, double flops, DType dtype) {
    Launch& launch = put(LaunchKind::kMatmul, "cuBLASLt", read, written);
    launch.library = true;
    launch.flops = flops;
    launch.dtype = dtype;
  }

  void add_loss() {
    if (op_->inputs.empty()) return;
    const TensorNote& target = op_->inputs.back();
    put(LaunchKind::kLoss, "range_check_kernel", static_cast<double>(target.bytes), 0);
    put(LaunchKind::kLoss, "forward_kernel", bytes_of(op_->inputs),
        4 * dense_bytes(kF32, target.shape));
  }

  void add_optimizer(bool before_ops) {
    for (const OptimizerLaunch& launch : optimizer_launches(step_)) {
      if (launch.before_ops == before_ops)
        put(LaunchKind::kOptimizer, launch.kernel, launch.read_bytes, launch.written_bytes);
    }
  }

  const StepRecording& step_;
  const Tf32Scope tf32_;
  const BlockOps taken_in_;
  std::vector<bool> skipped_;
  bool in_update_ = false;  // the op is one that the optimiser runs
  std::vector<Launch> list_;
  const OpNote* op_ = nullptr;
};

}  // namespace

std::string_view name_of(LaunchKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::vector<Launch> launches_of(const StepRecording& recording, const LaunchOptions& options) {
  return Launches(recording, options).take();
}

}  // namespace lathe::plan
