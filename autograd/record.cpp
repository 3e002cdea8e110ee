// How ops enter the graph (attach, the histories of views, checks of in-place ops), and how nodes
// are released.
#include "lathe/autograd/record.h"

#include <array>
#include <atomic>

#include "lathe/autograd/meta.h"
#include "lathe/autograd/saved_tensor_hooks.h"
#include "lathe/core/hooks/live_memory.h"
#include "lathe/core/hooks/watch.h"

namespace lathe::autograd {

void add_reference(Node* node) noexcept { node->add_ref(); }

void drop_reference(Node* node) noexcept {
  // Releasing a node releases its edges, which may release further nodes, and so on through the
  // whole depth of a graph. So dead nodes form a list per thread, and only the outermost call
  // deletes: the depth is limited by memory, not by the stack.
  constinit static thread_local Node* dead = nullptr;
  constinit static thread_local bool draining = false;
  if (!node->drop_ref()) return;
  node->next_dead = std::exchange(dead, node);
  if (draining) return;
  draining = true;
  while (dead != nullptr) {
    Node* next = dead;
    dead = next->next_dead;
    if (profile::watched()) [[unlikely]]
      profile::detail::watch_gone(next->number);
    profile::note_node_gone(next);
    delete next;
  }
  draining = false;
}

uint64_t Node::next_number() noexcept {
  static std::atomic<uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed) + 1;
}

void destroy(Meta* meta) noexcept {
  if (meta->grad_fn && meta->grad_fn->retain_target != nullptr &&
      meta->grad_fn->retain_target->meta == meta) {
    meta->grad_fn->retain_target = nullptr;
  }
  delete meta;
}

Meta& meta_of(const Tensor& t) {
  TensorImpl& impl = t.impl();
  if (impl.meta == nullptr) impl.meta = new Meta;
  return *impl.meta;
}

std::mutex& leaf_mutex(const TensorImpl* leaf) {
  static std::array<std::mutex, 64> mutexes;
  return mutexes[reinterpret_cast<uintptr_t>(leaf) / sizeof(TensorImpl) % mutexes.size()];
}

void set_maker(const Tensor& t, NodePtr node) {
  Meta& meta = meta_of(t);
  const bool retained = meta.grad_fn && meta.grad_fn->retain_target == &t.impl();
  if (retained) meta.grad_fn->retain_target = nullptr;
  if (retained && node) node->retain_target = &t.impl();
  meta.grad_fn = std::move(node);
}

namespace {

/// True if an in-place write through the base or another view changed the history of t's values.
bool is_stale_view(const TensorImpl& t) {
  if (!t.base || t.base->meta == nullptr) return false;
  return (t.meta == nullptr ? 0 : t.meta->history) != t.base->meta->history;
}

}  // namespace

Edge gradient_edge(const Tensor& t) {
  TensorImpl& impl = t.impl();
  if (is_stale_view(impl)) {
    const Tensor base(impl.base);
    Meta& meta = meta_of(t);
    set_maker(t, base.requires_grad() ? make_view_node(base, t) : NodePtr());
    meta.history = impl.base->meta->history;
  }
  if (impl.meta == nullptr) return {};
  if (impl.meta->grad_fn) return {impl.meta->grad_fn, {}};
  return impl.meta->requires_grad ? Edge{{}, t.handle()} : Edge{};
}

bool wants_record(const TensorRef* inputs, size_t count) {
  profile::raise_found();
  bool* const would_record = current_mode().would_record;
  if (!may_record()) return false;
  // Asks every input, also after a yes: a view whose base was written gets its new history here.
  // That history needs a smaller number than the node that will be made of these inputs.
  bool wanted = false;
  for (size_t i = 0; i < count; ++i) {
    if (inputs[i].tensor->defined() && inputs[i].tensor->requires_grad()) wanted = true;
  }
  if (grad_enabled()) return wanted;
  *would_record |= wanted;
  return false;
}

namespace {

/// One edge per input.
void connect(Node& node, const TensorRef* inputs, size_t count) {
  node.edges.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const Tensor& input = *inputs[i].tensor;
    if (!input.defined()) {
      node.edges.emplace_back();
      continue;
    }
    LATHE_CHECK(
        StateError, !input.impl().inference, node.name, ": input ", i,
        " was made in InferenceMode and cannot take part in a recorded op; clone it first (", input,
        ")");
    node.edges.push_back(gradient_edge(input));
  }
}

void describe_output(Node& node, const Tensor& y) {
  node.shape = y.shape();
  node.dtype = y.dtype();
  node.device = y.device();
}

/// Tells a LiveMemory that the node is there, and what it leads to.
void note_alive(const Node& node, const Tensor* y) {
  if (!profile::detail::notes_live()) return;
  std::vector<const void*> inputs;
  for (const Edge& edge : node.edges) {
    if (edge.node) inputs.push_back(edge.node.get());
  }
  profile::detail::note_maker(&node, node.name, std::move(inputs),
                              y == nullptr ? nullptr : y->impl().storage.get());
}

/// Tells the watchers of this thread what the node connects.
void show_watchers(const Node& node, const TensorRef* inputs, size_t count,
                   std::span<const profile::Input> ys) {
  std::vector<profile::Input> all;
  for (size_t i = 0; i < count; ++i) all.emplace_back(*inputs[i].tensor);
  profile::detail::watch_connected(node.number, all, ys);
}

void set_new_maker(const Tensor& y, NodePtr node) {
  set_maker(y, std::move(node));
  if (y.impl().base && y.impl().base->meta != nullptr) {
    meta_of(y).history = y.impl().base->meta->history;
  }
}

/// One output of a node that has several.
class OutputNode final : public Node {
 public:
  OutputNode(Node* joint, uint32_t output) : Node(joint->name) {
    edges.push_back({NodePtr(joint), {}, output});
    reusable = true;
  }
  Tensors run(const Tensors& dy, const Needs&) override { return dy; }
  void release() noexcept override {}
};

}  // namespace

void attach(const Tensor& y, const TensorRef* inputs, size_t count, NodePtr node) {
  if (!is_floating(y.dtype())) return;
  pack_saved();
  connect(*node, inputs, count);
  profile::note_node(node->name, node->number);
  if (profile::watched()) [[unlikely]] {
    const profile::Input output = y;
    show_watchers(*node, inputs, count, {&output, 1});
  }
  note_alive(*node, &y);
  note_activation(y);
  describe_output(*node, y);
  set_new_maker(y, std::move(node));
}

NodePtr maker_of_output(Node* node, uint32_t output, const Tensor& y) {
  if (node->outputs == 1) return NodePtr(node);
  NodePtr maker(new OutputNode(node, output));
  note_alive(*maker, &y);
  describe_output(*maker, y);
  return maker;
}

void attach_all(const Tensors& ys, const TensorRef* inputs, size_t count, NodePtr node) {
  pack_saved();
  connect(*node, inputs, count);
  profile::note_node(node->name, node->number);
  if (profile::watched()) [[unlikely]]
    show_watchers(*node, inputs, count, std::vector<profile::Input>(ys.begin(), ys.end()));
  note_alive(*node, nullptr);
  for (const Tensor& y : ys) {
    if (y.defined()) note_activation(y);
  }
  node->outputs = static_cast<uint32_t>(ys.size());
  if (node->outputs == 1) describe_output(*node, ys[0]);
  for (uint32_t k = 0; k < node->outputs; ++k) {
    if (ys[k].defined()) set_new_maker(ys[k], maker_of_output(node.get(), k, ys[k]));
  }
}

void check_in_place(const char* op, const Tensor& x) {
  LATHE_CHECK(ValueError, !has_overlap(x), op,
              ": several elements share memory (as in an expanded view), so it cannot be written "
              "in place (x: ",
              x, ")");
  if (!grad_enabled()) return;
  const TensorImpl& impl = x.impl();
  LATHE_CHECK(StateError, !(x.requires_grad() && x.is_leaf()), op,
              ": a leaf that requires grad can be written in place only under NoGrad (x: ", x, ")");
  if (!impl.base) return;
  const Tensor base(impl.base);
  LATHE_CHECK(
      StateError, !(base.requires_grad() && base.is_leaf()), op,
      ": a view of a leaf that requires grad can be written in place only under NoGrad (x: ", x,
      ", leaf: ", base, ")");
}

bool wants_record_in_place(const Tensor& x, std::initializer_list<TensorRef> sources) {
  if (!grad_enabled()) return wants_record(sources.begin(), sources.size());
  // A view made under NoGrad requires no gradient itself, but what it views may.
  const bool base_wants = x.impl().base && Tensor(x.impl().base).requires_grad();
  return x.requires_grad() || wants_record(sources.begin(), sources.size()) || base_wants;
}

}  // namespace lathe::autograd
