// The backward pass. A node's number grows with its creation, so an op's number is larger than
// those of the ops it depends on. Running the node with the largest number first therefore runs
// every op after all of its consumers, without recursion and without counting consumers.
#include "lathe/autograd/engine.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <queue>
#include <unordered_map>

#include "lathe/autograd/accumulate.h"
#include "lathe/autograd/arrival.h"
#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/half_copy.h"
#include "lathe/autograd/leaf_listener.h"
#include "lathe/autograd/meta.h"
#include "lathe/autograd/recompute.h"
#include "lathe/autograd/waiting.h"
#include "lathe/core/copy.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/log.h"

namespace lathe {
namespace autograd {

namespace {

class BackwardPass;
constinit thread_local Node* t_current_node = nullptr;
constinit thread_local BackwardPass* t_current_pass = nullptr;

class CurrentNode {
 public:
  CurrentNode(Node* node, BackwardPass* pass)
      : node_(std::exchange(t_current_node, node)), pass_(std::exchange(t_current_pass, pass)) {}
  ~CurrentNode() {
    t_current_node = node_;
    t_current_pass = pass_;
  }
  CurrentNode(const CurrentNode&) = delete;
  CurrentNode& operator=(const CurrentNode&) = delete;

 private:
  Node* node_;
  BackwardPass* pass_;
};

void add_to(Tensor& sum, const Tensor& gradient) {
  sum = sum.defined() ? accumulate(std::move(sum), gradient) : gradient;
}

Tensor run_hooks(const Hooks* hooks, Tensor gradient) {
  if (hooks == nullptr) return gradient;
  const Hooks copy = *hooks;  // a hook may remove itself
  for (const NumberedHook& hook : copy) {
    const Tensor replaced = hook.call(gradient);
    if (!replaced.defined()) continue;
    LATHE_CHECK(ShapeError,
                replaced.shape() == gradient.shape() && replaced.dtype() == gradient.dtype() &&
                    replaced.device() == gradient.device(),
                "backward: a hook replaced the gradient ", gradient, " by ", replaced);
    gradient = replaced;
  }
  return gradient;
}

class BackwardPass {
 public:
  explicit BackwardPass(const BackwardCall& call) : call_(call) {}

  Tensors run() {
    const ModeScope mode({call_.create_graph, false});
    const RecomputedValues values;
    // Closures compute in the dtypes that the forward pass chose.
    const Autocast cpu_off(kCPU, kF16, false), cuda_off(DeviceType::kCUDA, kF16, false);
    watch_inputs();
    try {
      walk();
      finish();
    } catch (const std::exception& error) {
      if (listening_) listening_->fail(error.what());
      throw;
    }
    return std::move(captured_);
  }

  /// What waits at the maker of an input, for waiting_gradient(). Null: nothing that may be taken.
  Tensor* waiting(const Node& node, size_t input) {
    if (call_.create_graph || input >= node.edges.size()) return nullptr;
    Node* const maker = node.edges[input].node.get();
    const auto at = pending_.find(maker);
    if (maker == nullptr || at == pending_.end() || is_seen(*maker)) return nullptr;
    return at->second.second.defined() ? nullptr : &at->second.gradient;
  }

 private:
  void walk() {
    if (call_.inputs == nullptr && any_listeners()) listen_from(call_.outputs);
    for (size_t i = 0; i < call_.outputs.size(); ++i) {
      deliver(gradient_edge(call_.outputs[i]), call_.gradients[i]);
    }
    while (!queue_.empty()) {
      if (listening_) complete_leaves(queue_.top().first);
      const auto at = pending_.find(queue_.top().second);
      Pending next = std::move(at->second);
      queue_.pop();
      pending_.erase(at);
      run_node(*next.node, next);
    }
    if (listening_) complete_leaves(0);
  }

  void listen_from(const Tensors& outputs) {
    listening_.emplace(call_.create_graph, call_.only);
    for (const Tensor& output : outputs) listening_->follow(gradient_edge(output));
    listening_->announce();
  }

  /// Tells listeners of the leaves to which no node leads from `next` on.
  void complete_leaves(uint64_t next) {
    listening_->complete(next, [this](TensorImpl* tensor, LeafListener& listener, size_t number) {
      const auto at = leaf_at_.find(tensor);
      if (at == leaf_at_.end()) {
        listener.complete(number, Tensor());
        return;
      }
      Arrival& leaf = leaves_[at->second];
      leaf.gradient = amp::widened(leaf.gradient, tensor->dtype);
      call_hooks(leaf);
      leaf.taken = listener.complete(number, leaf.gradient);
      if (leaf.taken) leaf.gradient = Tensor();
    });
  }

  struct Pending {
    NodePtr node;
    Tensor gradient;    // of its output
    Tensor second;      // what the op itself adds to it (Node::takes_parts)
    Tensors by_output;  // if it has several
  };

  void watch_inputs() {
    if (call_.inputs == nullptr) return;
    captured_.resize(call_.inputs->size());
    for (size_t i = 0; i < call_.inputs->size(); ++i) {
      const Edge edge = gradient_edge((*call_.inputs)[i]);
      watched_.emplace(edge.node ? static_cast<const void*>(edge.node.get()) : edge.leaf.get(), i);
    }
  }

  void capture(const void* place, const Tensor& gradient) {
    const auto [first, last] = watched_.equal_range(place);
    for (auto at = first; at != last; ++at) captured_[at->second] = gradient;
  }

  void deliver(const Edge& edge, const Tensor& gradient) {
    if (edge.node) {
      Pending& pending = pending_[edge.node.get()];
      if (!pending.node) {
        pending.node = edge.node;
        if (edge.node->outputs > 1) pending.by_output.resize(edge.node->outputs);
        queue_.emplace(edge.node->number, edge.node.get());
      }
      if (pending.by_output.empty()) {
        add_part(pending, gradient);
      } else {
        add_to(pending.by_output[edge.output], gradient);
      }
    } else if (edge.leaf) {
      const auto [at, is_new] = leaf_at_.try_emplace(edge.leaf.get(), leaves_.size());
      if (is_new) leaves_.push_back({edge.leaf, gradient});
      if (!is_new) add_to_leaf(leaves_[at->second], gradient);
    }
  }

  /// An op that takes parts reads two where it would have read their sum, and nobody has to write
  /// that. The latest is left to it, so that the order of additions is the usual one.
  void add_part(Pending& pending, const Tensor& gradient) const {
    const bool leaves_it =
        pending.node->takes_parts && pending.gradient.defined() && !call_.create_graph;
    if (!leaves_it) return add_to(pending.gradient, gradient);
    if (pending.second.defined()) add_to(pending.gradient, std::exchange(pending.second, Tensor()));
    pending.second = gradient;
  }

  /// True if somebody besides the op sees the gradient of its output.
  bool is_seen(const Node& node) const {
    return node.hooks != nullptr || node.retain_target != nullptr || watched_.contains(&node) ||
           profile::gradients_watched();
  }

  /// Gradients that stayed half are added up in the leaf's dtype.
  static void add_to_leaf(Arrival& leaf, const Tensor& gradient) {
    const DType dtype = leaf.tensor->dtype;
    if (leaf.gradient.dtype() != dtype) leaf.gradient = amp::widened(leaf.gradient, dtype);
    add_to(leaf.gradient, amp::widened(gradient, dtype));
  }

  /// True if `node` is the cast of a parameter by Autocast whose gradient may stay half
  /// (half_copy.h): nobody but an optimiser is to see it.
  bool leaves_half(const Node& node) const {
    return node.reusable && node.edges.size() == 1 && node.edges[0].leaf && is_half(node.dtype) &&
           amp::takes_half_gradient(*node.edges[0].leaf) && call_.inputs == nullptr &&
           !call_.create_graph && !profile::gradients_watched();
  }

  /// What follows an op's result, and not the op: hooks, retain_grad(), grad(…, inputs).
  Tensor note_gradient(const Node& node, Tensor dy) {
    if (node.hooks != nullptr) {
      const profile::HookScope scope;
      dy = run_hooks(node.hooks.get(), std::move(dy));
    }
    if (node.retain_target != nullptr && call_.inputs == nullptr) {
      retained_.push_back({IntrusivePtr<TensorImpl>(node.retain_target), dy});
    }
    capture(&node, dy);
    return dy;
  }

  void run_node(Node& node, Pending& pending) {
    const CurrentNode current(&node, this);
    const profile::BackwardRange range(node.name, node.number, node.device);
    if (pending.second.defined() && is_seen(node)) {
      add_to(pending.gradient, std::exchange(pending.second, Tensor()));
    }
    Tensors& dy = node.outputs == 1 ? single_ : pending.by_output;
    if (node.outputs == 1) dy[0] = note_gradient(node, std::move(pending.gradient));
    if (pending.second.defined()) dy.push_back(std::move(pending.second));
    if (!call_.stop_at_inputs || !watched_.contains(&node)) walk_through(node, dy);
    std::ranges::fill(dy, Tensor());
    single_.resize(1);
  }

  /// Runs the op and hands its gradients on. dy is used up.
  void walk_through(Node& node, Tensors& dy) {
    LATHE_CHECK(StateError, !node.released, "backward: the graph through ", node.name,
                " was freed by an earlier backward pass; give that one retain_graph");
    const auto deliver_to = [this](const Edge& edge, const Tensor& g) {
      if (listening_) listening_->follow(edge);
      deliver(edge, g);
    };
    if (leaves_half(node)) {
      deliver(node.edges[0], dy[0]);
    } else if (!node.expand(dy, deliver_to)) {
      run_op(node, dy);
    } else if (listening_) {
      listening_->announce();
    }
    if (!call_.retain_graph && !node.reusable) {
      node.released = true;
      node.release();
    }
  }

  void run_op(Node& node, Tensors& dy) {
    Tensors shown;  // a second handle: the op writes into no dy that a watcher is to see
    if (profile::gradients_watched()) [[unlikely]]
      shown = dy;
    const Tensors gradients = node.run(dy, Needs(node.edges));
    if (profile::watched()) [[unlikely]]
      profile::raise_found();
    if (profile::gradients_watched()) [[unlikely]]
      show_watchers(node, shown, gradients);
    std::ranges::fill(dy, Tensor());  // a gradient that is dy itself has one owner from here on
    for (size_t i = 0; i < node.edges.size() && i < gradients.size(); ++i) {
      if (!node.edges[i].wanted() || !gradients[i].defined()) continue;
      check_gradient(node, i, gradients[i]);
      deliver(node.edges[i], gradients[i]);
    }
  }

  static void show_watchers(const Node& node, const Tensors& dy, const Tensors& gradients) {
    for (size_t i = 0; i < node.edges.size() && i < gradients.size(); ++i) {
      if (node.edges[i].wanted() && gradients[i].defined())
        profile::detail::watch_gradient(node.name, node.number, i, gradients[i], dy);
    }
  }

  /// Checks that a closure's result has the shape, dtype and device of its input.
  static void check_gradient(const Node& node, size_t i, const Tensor& g) {
    const Edge& edge = node.edges[i];
    if (edge.node && edge.node->outputs > 1) return;  // checked where it came to the output
    const Shape& shape = edge.node ? edge.node->shape : edge.leaf->shape;
    const DType dtype = edge.node ? edge.node->dtype : edge.leaf->dtype;
    const Device device = edge.node ? edge.node->device : edge.leaf->storage->device();
    const auto text = [&] {
      return concat("backward: ", node.name, " returned a gradient ", g, " for input ", i,
                    ", which is ", dtype, shape, "@", device);
    };
    LATHE_CHECK(ShapeError, g.shape() == shape, text());
    LATHE_CHECK(DTypeError, g.dtype() == dtype, text());
    LATHE_CHECK(DeviceError, g.device() == device, text());
  }

  /// BackwardOptions::inputs: drops the gradients of all other leaves.
  void keep_only(const Tensors& wanted) {
    std::erase_if(leaves_, [&](const Arrival& leaf) {
      return std::ranges::none_of(wanted,
                                  [&](const Tensor& t) { return t.handle() == leaf.tensor; });
    });
  }

  static void call_hooks(Arrival& leaf) {
    if (std::exchange(leaf.hooked, true)) return;
    const Hooks* const hooks = leaf.tensor->meta->hooks.get();
    if (hooks != nullptr) leaf.gradient = amp::widened(leaf.gradient, leaf.tensor->dtype);
    leaf.gradient = run_hooks(hooks, std::move(leaf.gradient));
  }

  /// Ends the pass: does first everything that can fail, and then changes grad() of all tensors.
  void finish() {
    if (call_.only != nullptr) keep_only(*call_.only);
    for (Arrival& leaf : leaves_) {
      call_hooks(leaf);
      if (call_.inputs != nullptr) capture(leaf.tensor.get(), leaf.gradient);
    }
    if (call_.inputs != nullptr) return;
    std::vector<Arrival>& all = leaves_;
    if (listening_) {
      std::erase_if(all, [](const Arrival& leaf) { return leaf.taken; });
      for (const LeafListener::NewGrad& n : listening_->end())
        all.push_back({.tensor = n.leaf.handle(), .gradient = n.grad, .is_grad = true});
    }
    all.insert(all.end(), retained_.begin(), retained_.end());
    retained_.clear();
    const GradLocks locks(all);
    for (Arrival& a : all) a.prepare(call_.create_graph);
    for (Arrival& a : all) a.commit();
  }

  const BackwardCall& call_;
  Tensors single_ = Tensors(1);  // the gradient of an op with one output, while it runs
  std::priority_queue<std::pair<uint64_t, Node*>> queue_;
  std::unordered_map<Node*, Pending> pending_;
  std::unordered_map<TensorImpl*, size_t> leaf_at_;
  std::vector<Arrival> leaves_;  // in order of first arrival
  std::vector<Arrival> retained_;
  std::unordered_multimap<const void*, size_t> watched_;  // node or leaf → index into captured_
  Tensors captured_;
  std::optional<Listening> listening_;
};

}  // namespace

Node* current_node() noexcept { return t_current_node; }

Tensor waiting_gradient(size_t input) {
  if (t_current_pass == nullptr) return {};
  const Tensor* const waiting = t_current_pass->waiting(*t_current_node, input);
  return waiting == nullptr ? Tensor() : *waiting;
}

void take_waiting_gradient(size_t input) {
  Tensor* const waiting = t_current_pass->waiting(*t_current_node, input);
  if (waiting != nullptr) *waiting = {};
}

Tensors run_backward(const BackwardCall& call) {
  profile::raise_found();
  const profile::OpRange range("backward pass");
  const profile::MemoryTagScope gradients(profile::MemoryTag::kGradients);
  return BackwardPass(call).run();
}

/// The dL/d(output) to start with: the given one, after a check, or 1 for a one-element output.
static Tensor seed_gradient(const char* op, const Tensor& output, const Tensor& given) {
  LATHE_CHECK(StateError, output.requires_grad(), op, ": ", output,
              " does not require grad and has no history: it was computed under NoGrad, or from "
              "tensors that do not require grad");
  if (given.defined()) {
    LATHE_CHECK(ShapeError, given.shape() == output.shape() && given.dtype() == output.dtype(), op,
                ": the gradient ", given, " does not match the output ", output);
    return given;
  }
  LATHE_CHECK(ShapeError, output.numel() == 1, op,
              ": without a gradient the output must have one element (output: ", output, ")");
  const Tensor one = empty_like(output);
  fill_values(one, 1.0);
  return one;
}

/// A GPU's loss is not looked at: that would wait for it.
static void warn_of_nan(const Tensor& loss) {
  if (!loss.device().is_cpu() || loss.numel() != 1 || !std::isnan(loss.item<double>())) return;
  warn_once("backward: NaN",
            "backward: the loss is NaN, and so its gradients may be; look for a division by 0, a "
            "logarithm of 0, or a learning rate that is too high");
}

}  // namespace autograd

void Tensor::backward(const BackwardOptions& options) const {
  const Tensors outputs{*this};
  const Tensors gradients{autograd::seed_gradient("backward", *this, options.gradient)};
  for (const Tensor& input : options.inputs) {
    LATHE_CHECK(StateError, input.defined() && input.requires_grad() && input.is_leaf(),
                "backward: an input is no leaf that requires grad (", input, ")");
  }
  if (!options.gradient.defined()) autograd::warn_of_nan(*this);
  autograd::run_backward({.outputs = outputs,
                          .gradients = gradients,
                          .retain_graph = options.retain_graph || options.create_graph,
                          .create_graph = options.create_graph,
                          .only = options.inputs.empty() ? nullptr : &options.inputs});
}

Tensors grad(const Tensors& outputs, const Tensors& inputs, const GradOptions& options) {
  Tensors gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool given = i < options.grad_outputs.size();
    gradients.push_back(
        autograd::seed_gradient("grad", outputs[i], given ? options.grad_outputs[i] : Tensor()));
  }
  for (const Tensor& input : inputs) {
    LATHE_CHECK(StateError, input.requires_grad(), "grad: an input does not require grad (", input,
                ")");
  }
  Tensors result =
      autograd::run_backward({.outputs = outputs,
                              .gradients = gradients,
                              .retain_graph = options.retain_graph || options.create_graph,
                              .create_graph = options.create_graph,
                              .inputs = &inputs});
  for (size_t i = 0; i < result.size(); ++i) {
    LATHE_CHECK(StateError, result[i].defined() || options.allow_unused, "grad: input ", i,
                " is not used by the outputs (", inputs[i], "); allow_unused gives undefined");
  }
  return result;
}

}  // namespace lathe
