// Node: one recorded op in the graph that backward() walks. Edges point from an op to the ops (or
// leaves) that made its inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "lathe/core/function_ref.h"
#include "lathe/core/tensor.h"

namespace lathe::autograd {

class Node;
LATHE_API void add_reference(Node* node) noexcept;
LATHE_API void drop_reference(Node* node) noexcept;  // releases long chains without recursion
using NodePtr = IntrusivePtr<Node>;

/// Where the gradient of one input goes: to the op that made it, to a leaf's grad(), or (both
/// empty) nowhere.
struct Edge {
  NodePtr node;
  IntrusivePtr<TensorImpl> leaf;
  uint32_t output = 0;  // which output of `node`

  bool wanted() const { return node || leaf; }
};

/// need[i]: true if the gradient of input i is wanted.
class Needs {
 public:
  explicit Needs(const std::vector<Edge>& edges) : edges_(edges) {}
  bool operator[](size_t i) const { return i < edges_.size() && edges_[i].wanted(); }
  size_t size() const { return edges_.size(); }

 private:
  const std::vector<Edge>& edges_;
};

using Hook = std::function<Tensor(const Tensor&)>;
struct NumberedHook {
  int64_t number;
  Hook call;
};
using Hooks = std::vector<NumberedHook>;

/// A recorded op. Most have one output. Where there are several, each tensor's op is a node of its
/// own, which passes its gradient on to its output of this one.
class LATHE_API Node : public RefCounted {
 public:
  explicit Node(const char* op) : name(op), number(next_number()) {}
  virtual ~Node() = default;

  /// The gradients of the inputs, given those of the outputs. One may be undefined where need[i] is
  /// false or the gradient is zero. dy[k] is undefined if nothing used output k; a single dy is
  /// always defined. With takes_parts dy may hold two tensors, whose sum is the gradient.
  virtual Tensors run(const Tensors& dy, const Needs& need) = 0;

  /// For an op that is computed again in the backward pass: records it a second time, passes the
  /// gradients of the outputs on to the new graph, and returns true. run() is then not called.
  using Deliver = FunctionRef<void(const Edge& to, const Tensor& gradient)>;
  virtual bool expand(const Tensors&, Deliver) { return false; }

  /// Drops what the op saved. Afterwards run() must not be called.
  virtual void release() noexcept = 0;

  const char* name;       // the op: a string literal
  const uint64_t number;  // creation order: an op's number is above those of the ops it depends on
  std::vector<Edge> edges;  // one per input
  uint32_t outputs = 1;     // more than one: gradients arrive by output
  bool released = false;
  bool takes_parts = false;  // run() also takes two gradients of its one output, to add them itself
  bool reusable = false;     // saves nothing: a backward pass need not release it
  bool computed_again = false;          // expand() returns true
  TensorImpl* retain_target = nullptr;  // of retain_grad(): cleared when that tensor goes
  std::unique_ptr<Hooks> hooks;         // called with the output's gradient, before run()
  Shape shape;                          // of the output, so of dy
  DType dtype = DType::kF32;
  Device device;
  Node* next_dead = nullptr;  // link in the list of nodes being released

 private:
  static uint64_t next_number() noexcept;
};

/// A node whose gradient is a lambda (const Tensor& dy, const Needs& need) → Tensors. One of
/// (const Tensors& dy, …) takes parts.
template <class F>
class ClosureNode final : public Node {
  static constexpr bool kTakesOne = std::is_invocable_v<F&, const Tensor&, const Needs&>;

 public:
  ClosureNode(const char* op, F backward) : Node(op), backward_(std::move(backward)) {
    takes_parts = !kTakesOne;
  }

  Tensors run(const Tensors& dy, const Needs& need) override {
    if constexpr (kTakesOne) {
      return (*backward_)(dy.front(), need);
    } else {
      return (*backward_)(dy, need);
    }
  }
  void release() noexcept override { backward_.reset(); }

 private:
  std::optional<F> backward_;
};

}  // namespace lathe::autograd
