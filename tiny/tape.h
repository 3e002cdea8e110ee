// The tape: reverse-mode differentiation. Each op that is run appends a node, which knows the nodes
// that made the op's inputs and how to turn the gradient of its output into those of its inputs.
//
// Why backwards? Let a loss L depend on y, and y on x. The chain rule says
//
//   dL/dx = sum over i of dL/dy_i * dy_i/dx
//
// From the loss on, dL/dy is always as large as y itself. So one pass from the last op to the first
// costs about as much as the forward pass, however many parameters there are. In the other
// direction one would carry dy/dp for every parameter p.
//
// A node's number grows with its creation. So an op's number is larger than those of the ops that
// it depends on, and running the largest number first runs each op after all that used its output.
#pragma once

#include <atomic>
#include <functional>

#include "tensor.h"

namespace tiny {

using Needs = std::vector<bool>;  // need[i]: the gradient of input i is wanted
/// From dy, the gradient of the output, those of the inputs: undefined if not needed.
using Backward = std::function<std::vector<Tensor>(const Tensor& dy, const Needs& need)>;

struct Node {
  std::string op;
  int64_t number;
  std::vector<std::shared_ptr<Meta>> inputs;  // null where no gradient is wanted
  Backward backward;                          // empty once it has run: what it saved is released
};

/// What the tape knows of a tensor. It does not hold the tensor, so that memory that no gradient
/// needs is free again during the forward pass.
struct Meta {
  Shape shape;
  std::shared_ptr<Node> maker = {};  // the op that made it; null for a leaf, such as a parameter
  Tensor grad = {};  // of a leaf: the sum of the gradients since it was last dropped
};

/// While one is alive, its thread records nothing.
class NoGrad {
 public:
  NoGrad() : before_(std::exchange(is_on(), true)) {}
  ~NoGrad() { is_on() = before_; }
  NoGrad(const NoGrad&) = delete;
  static bool& is_on() {
    thread_local bool on = false;
    return on;
  }

 private:
  const bool before_;
};

inline bool requires_grad(const Tensor& x) { return x.meta() != nullptr; }
/// The same numbers, without history.
inline Tensor detach(const Tensor& x) { return x.as_strided(x.shape(), x.strides(), x.offset()); }
/// The same numbers as a leaf whose gradient is wanted.
inline Tensor parameter(const Tensor& x) {
  Tensor leaf = detach(x);
  leaf.set_meta(std::make_shared<Meta>(Meta{.shape = x.shape()}));
  return leaf;
}
/// The gradient of a leaf; undefined before the first backward pass.
inline Tensor grad(const Tensor& leaf) { return leaf.meta() ? leaf.meta()->grad : Tensor(); }

/// A tensor that an op keeps for its gradient. It is kept without its history: an output that kept
/// its own node would never be released.
class Saved {
 public:
  explicit Saved(const Tensor& x) : tensor_(detach(x)), version_(x.storage().version()) {}

  /// throws: StateError if the numbers were changed in place since.
  const Tensor& get() const {
    check<StateError>(tensor_.storage().version() == version_, "backward: a tensor of the shape ",
                      tensor_.shape(), " was modified in place since it was saved: its version is ",
                      tensor_.storage().version(), ", not ", version_);
    return tensor_;
  }

 private:
  Tensor tensor_;
  int64_t version_;
};

/// The last act of every op: says that y was computed from `inputs`. Returns y.
inline Tensor record(const std::string& op, Tensor y, const std::vector<Tensor>& inputs,
                     Backward backward) {
  static std::atomic<int64_t> next_number{0};
  const auto needs = [](const Tensor& x) { return requires_grad(x); };
  if (NoGrad::is_on() || std::none_of(inputs.begin(), inputs.end(), needs)) return y;
  auto node = std::make_shared<Node>(Node{op, next_number++, {}, std::move(backward)});
  for (const Tensor& x : inputs) node->inputs.push_back(x.meta());
  y.set_meta(std::make_shared<Meta>(Meta{.shape = y.shape(), .maker = std::move(node)}));
  return y;
}

/// The numbers of x, to be written in place. Raises the version.
/// throws: StateError if x requires grad, outside of NoGrad; ValueError if elements share memory.
inline double* writable(const std::string& op, Tensor& x) {
  check<StateError>(!requires_grad(x) || NoGrad::is_on(), op,
                    ": a tensor that requires grad may be written in place only under NoGrad");
  for (size_t d = 0; d < x.ndim(); ++d)
    check<ValueError>(x.strides()[d] != 0 || x.dim(d) <= 1, op, ": elements of the shape ",
                      x.shape(), " with the strides ", x.strides(), " share memory");
  x.storage().bump_version();
  return x.data();
}

/// Writes the values of `from`, which has the same shape, into x.
/// throws: ShapeError; what writable() throws.
inline void copy_(Tensor& x, const Tensor& from) {
  check<ShapeError>(x.shape() == from.shape(), "copy_: ", from.shape(), " into ", x.shape());
  const Tensor source = copy_of(from);  // from may be a view of x
  const double* value = source.data();
  double* to = writable("copy_", x);
  for_each_offset<1>(x.shape(), {x.strides()}, [&](const auto& at) { to[at[0]] = *value++; });
}

/// a + b, row-major. Not in place: both may be in use elsewhere.
inline Tensor sum_of_gradients(const Tensor& a, const Tensor& b) {
  Tensor y(a.shape());
  double* sum = y.data();
  const double *pa = a.data(), *pb = b.data();
  for_each_offset<2>(a.shape(), {a.strides(), b.strides()},
                     [&](const auto& at) { *sum++ = pa[at[0]] + pb[at[1]]; });
  return y;
}

/// One backward pass: gradients on their way. If an op throws, no leaf has changed.
class BackwardPass {
 public:
  void run(const Tensor& loss) {
    deliver(loss.meta(), Tensor(loss.shape(), {1}));
    while (!waiting_.empty()) {
      const auto [number, next] = *waiting_.begin();
      waiting_.erase(waiting_.begin());
      run_node(*next.node, next.dy);
    }
    for (const auto& [leaf, gradient] : leaves_)
      leaf->grad =
          leaf->grad.defined() ? sum_of_gradients(leaf->grad, gradient) : copy_of(gradient);
  }

 private:
  struct Waiting {
    std::shared_ptr<Node> node;
    Tensor dy;  // the sum of what has arrived
  };

  void deliver(const std::shared_ptr<Meta>& to, const Tensor& gradient) {
    Tensor& sum = place_of(to);
    sum = sum.defined() ? sum_of_gradients(sum, gradient) : gradient;
  }
  Tensor& place_of(const std::shared_ptr<Meta>& to) {
    if (!to->maker) return leaves_[to];
    Waiting& waiting = waiting_[to->maker->number];
    waiting.node = to->maker;
    return waiting.dy;
  }

  void run_node(Node& node, const Tensor& dy) {
    check<StateError>(node.backward != nullptr, "backward: the gradient of ", node.op,
                      " was computed before, and what it saved was released");
    Needs need;
    for (const auto& input : node.inputs) need.push_back(input != nullptr);
    const std::vector<Tensor> gradients = node.backward(dy, need);
    for (size_t i = 0; i < need.size(); ++i) {
      if (!need[i]) continue;
      check<ShapeError>(gradients.at(i).shape() == node.inputs[i]->shape, "backward: ", node.op,
                        " gives input ", i, " of the shape ", node.inputs[i]->shape,
                        " a gradient of the shape ", gradients[i].shape());
      deliver(node.inputs[i], gradients[i]);
    }
    node.backward = nullptr;
    node.inputs.clear();
  }

  std::map<int64_t, Waiting, std::greater<>> waiting_;  // by the node's number, newest first
  std::map<std::shared_ptr<Meta>, Tensor> leaves_;
};

/// Adds the gradient of `loss` to grad() of every leaf that it depends on. The tape is released.
/// throws: ShapeError if the loss has several elements; StateError if it depends on no leaf, if the
/// tape was released, or if an op's saved tensor was modified.
inline void backward(const Tensor& loss) {
  check<ShapeError>(loss.numel() == 1, "backward: the loss must be one number, got the shape ",
                    loss.shape());
  check<StateError>(requires_grad(loss),
                    "backward: the loss depends on nothing that requires grad");
  const NoGrad off;
  BackwardPass().run(loss);
}

}  // namespace tiny

// What the real one adds, and why
// - autograd/record.h: closures call ops, which can be recorded, too: gradients of gradients.
// - ops/inplace.cpp: writing in place where a tape is. The tensor's node is replaced by a new one.
// - autograd/node.h: drop_reference() releases a long tape without recursion. Here a tape that
//   never ran backwards is released by as many nested destructors as it has ops.
// - autograd/leaf_listener.h: a gradient goes to other ranks as soon as it is complete.
// - autograd/checkpoint.h drops what was saved and computes it again, where memory is short.
// - autograd/gradcheck.h compares any gradient with differences.
