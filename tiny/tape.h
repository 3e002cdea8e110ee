// The tape: reverse-mode differentiation. There is no object of that name: the tape is a graph of
// nodes, one for each op that was run, and each tensor points to the node that made it:
//
//   Tensor --meta--> Meta --maker--> Node --inputs--> the Metas of the op's inputs --maker--> ...
//                                     \--backward: from dL/doutput to dL/dinput, for each input
//
// A parameter's Meta has no maker. There the way ends, and the gradient is kept as Meta::grad.
//
// Why backwards? Let a loss L depend on y, and y on x. The chain rule says
//
//   dL/dx = sum over i of dL/dy_i * dy_i/dx
//
// From the loss on, dL/dy is always as large as y itself. So one pass from the last op to the first
// costs about as much as the forward pass, however many parameters there are. In the other
// direction one would carry dy/dp for every parameter p.
//
// Nodes are numbered in the order of creation. So an op's number is larger than those of the ops
// that it depends on, and running the largest first runs each op after all that used its output.
//
// An example: w = 3 is a parameter, and a = w * w, b = a + w, L = a * b.
//
//   forward:   node 0: a = 9     node 1: b = 12     node 2: L = 108
//   backward:  node 2, dL = 1:   da = b = 12, db = a = 9
//              node 1, db = 9:   da = 9, dw = 9                  now da = 12 + 9 = 21
//              node 0, da = 21:  dw = 21 * 3 for each w          now dw = 9 + 63 + 63 = 135
//
// Indeed L = w^4 + w^3, and 4 w^3 + 3 w^2 = 135. Node 0 ran once, when its da was complete.
#pragma once

#include <atomic>
#include <functional>

#include "tensor.h"

namespace tiny {

using Needs = std::vector<bool>;  // need[i]: the gradient of input i is wanted
/// From dy, the gradient of the output, those of the inputs. One not needed may be undefined.
using Backward = std::function<std::vector<Tensor>(const Tensor& dy, const Needs& need)>;

struct Node {
  std::string op;
  int64_t number;
  std::vector<std::shared_ptr<Meta>> inputs;  // null where no gradient is wanted
  Backward backward;                          // empty once it has run: what it saved is released
};

/// What the tape knows of a tensor. It does not hold the tensor, so that memory that no gradient
/// needs is free again during the forward pass: in relu(a + b) that of a + b, as relu keeps only y.
struct Meta {
  Shape shape;
  std::shared_ptr<Node> maker = {};  // the op that made it; null for a leaf, such as a parameter
  Tensor grad = {};  // of a leaf: the sum of the gradients since it was last dropped
};

/// While one is alive, its thread records nothing.
class NoGrad {
 public:
  NoGrad() : before_(std::exchange(is_on, true)) {}
  ~NoGrad() { is_on = before_; }
  NoGrad(const NoGrad&) = delete;
  static inline thread_local bool is_on = false;

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

/// A tensor that an op keeps for its gradient, without its history. An output y with its history
/// would close a circle that is never released: node -> closure -> y -> meta -> node. The ops here
/// save y before it has a meta, and inputs close no circle: so this is a precaution. It refuses:
///
///   const Tensor y = relu(parameter(x));       // keeps y
///   Tensor same = detach(y);  copy_(same, x);  // y's numbers change, and its storage's version
///   backward(sum(y));                          // StateError: modified in place
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

/// The last act of every op: says that y was computed from `inputs`. Returns y. (Device::record()
/// and Pool::record_stream() share the word, not the meaning: they are about streams.)
inline Tensor record(const std::string& op, Tensor y, const std::vector<Tensor>& inputs,
                     Backward backward) {
  static std::atomic<int64_t> next_number{0};
  const auto needs = [](const Tensor& x) { return requires_grad(x); };
  if (NoGrad::is_on || std::none_of(inputs.begin(), inputs.end(), needs)) return y;
  auto node = std::make_shared<Node>(Node{op, next_number++, {}, std::move(backward)});
  for (const Tensor& x : inputs) node->inputs.push_back(x.meta());
  y.set_meta(std::make_shared<Meta>(Meta{.shape = y.shape(), .maker = std::move(node)}));
  return y;
}

/// The numbers of x, to be written in place. Raises the version.
/// throws: StateError if x requires grad, outside of NoGrad; ValueError if elements share memory.
inline double* writable(const std::string& op, Tensor& x) {
  check<StateError>(!requires_grad(x) || NoGrad::is_on, op,
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
  Tensor y = copy_of(a);
  double* sum = y.data();
  const double* more = b.data();
  for_each_offset<1>(b.shape(), {b.strides()}, [&](const auto& at) { *sum++ += more[at[0]]; });
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
    for (const auto& [leaf, gradient] : leaves_)  // copied: it may be a view or shared
      leaf->grad =
          leaf->grad.defined() ? sum_of_gradients(leaf->grad, gradient) : copy_of(gradient);
  }

 private:
  struct Waiting {
    std::shared_ptr<Node> node;
    Tensor dy;  // the sum of what has arrived
  };

  void deliver(const std::shared_ptr<Meta>& to, const Tensor& gradient) {
    if (to->maker) waiting_[to->maker->number].node = to->maker;
    Tensor& sum = to->maker ? waiting_[to->maker->number].dy : leaves_[to];
    sum = sum.defined() ? sum_of_gradients(sum, gradient) : gradient;
  }

  void run_node(Node& node, const Tensor& dy) {
    check<StateError>(node.backward != nullptr, "backward: the gradient of ", node.op,
                      " was computed before, and what it saved was released");
    Needs need;
    for (const auto& input : node.inputs) need.push_back(input != nullptr);
    const std::vector<Tensor> gradients = node.backward(dy, need);
    for (size_t i = 0; i < need.size(); ++i) {
      if (!need[i]) continue;
      const Tensor& dx = gradients.at(i);
      check<ShapeError>(dx.shape() == node.inputs[i]->shape, "backward: ", node.op, " gives input ",
                        i, " of the shape ", node.inputs[i]->shape, " a gradient of the shape ",
                        dx.shape());
      deliver(node.inputs[i], dx);
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
// - autograd/node.h: drop_reference() releases a long tape without recursion. Here a tape that
//   never ran backwards is released by as many nested destructors as it has ops.
// - autograd/checkpoint.h drops what was saved and computes it again, where memory is short.
// - autograd/gradcheck.h checks any gradient by differences. For an op f and a number x_i:
//     const Tensor w = parameter(copy_of(x));  backward(sum(f(w)));
//     x.data()[i] += 1e-5;  const double above = sum(f(x)).item();
//     x.data()[i] -= 2e-5;  const double below = sum(f(x)).item();
//     (above - below) / 2e-5 and grad(w).data()[i] agree to about nine digits.
