// A watcher and hooks on saved tensors that note what each node is, and the walk over the nodes.
#include "lathe/autograd/recorded_graph.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lathe/autograd/meta.h"
#include "lathe/autograd/node.h"
#include "lathe/autograd/saved_tensor_hooks.h"
#include "lathe/core/copy.h"
#include "lathe/core/hooks/stack.h"
#include "lathe/core/hooks/watch.h"

namespace lathe::autograd {

namespace {

using profile::Kind;

/// A saved tensor, and which memory it is. Saved tensors of one graph live at the same time, so
/// that the address tells them apart.
struct Keeping {
  SavedTensor tensor;
  const Storage* memory;
};

struct Note {
  std::string called, layer;
  std::vector<void*> stack;
  std::vector<RecordedInput> inputs;
  std::vector<Keeping> saved;
  std::optional<double> gradient_norm = {};
};

double sum_of_squares(const Tensor& t) {
  const Tensor host = empty(t.shape(), {.dtype = kF64});
  copy_values(host, t);
  const double* const values = host.data<double>();
  double sum = 0;
  for (int64_t i = 0; i < host.numel(); ++i) sum += values[i] * values[i];
  return sum;
}

class NotingHooks final : public SavedTensorHooks {
 public:
  explicit NotingHooks(Packer packer) : SavedTensorHooks(std::move(packer)) {}
};

/// A node that only passes a gradient on to an output of another one.
bool is_output(const Node& node) {
  return node.edges.size() == 1 && node.edges[0].node && node.edges[0].node->outputs > 1 &&
         node.edges[0].node->name == node.name;
}

Node* op_behind(Node* node) {
  return node != nullptr && is_output(*node) ? node->edges[0].node.get() : node;
}

}  // namespace

class GraphRecorder::Watch final : public profile::Watcher {
 public:
  Watch()
      : hooks_([this](const Tensor& t) {
          waiting_.push_back({{.shape = t.shape(), .dtype = t.dtype(), .bytes = t.bytes()},
                              t.impl().storage.get()});
          return std::function<Tensor()>();
        }) {}

  void connected(uint64_t number, std::span<const profile::Input> inputs,
                 std::span<const profile::Input> outputs) override {
    Note note;
    const auto ops = open_ops();
    const auto op = std::ranges::find_if(
        ops, [](const auto& o) { return o.kind == Kind::kOp || o.kind == Kind::kView; });
    if (op != ops.end()) note.called = op->name;
    note.layer = layer();
    note.stack = profile::call_stack();
    for (const profile::Input& input : inputs) {
      const Tensor& x = *input.tensor;
      RecordedInput& in = note.inputs.emplace_back();
      in.defined = x.defined();
      if (!in.defined) continue;
      in.shape = x.shape();
      in.dtype = x.dtype();
    }
    note.saved = std::exchange(waiting_, {});
    for (Keeping& kept : note.saved) name_role(kept, inputs, outputs);
    notes_.insert_or_assign(number, std::move(note));
  }

  void gradient(const char*, uint64_t number, size_t, const Tensor&, const Tensors& dy) override {
    const auto at = notes_.find(number);
    if (at == notes_.end() || at->second.gradient_norm) return;
    double sum = 0;
    for (const Tensor& t : dy) sum += t.defined() ? sum_of_squares(t) : 0;
    at->second.gradient_norm = std::sqrt(sum);
  }

  const Note* note_of(uint64_t number) const {
    const auto at = notes_.find(number);
    return at == notes_.end() ? nullptr : &at->second;
  }

 private:
  static void name_role(Keeping& kept, std::span<const profile::Input> inputs,
                        std::span<const profile::Input> outputs) {
    const auto same = [&](const profile::Input& t) {
      return t.tensor->defined() && t.tensor->impl().storage.get() == kept.memory;
    };
    const auto input = std::ranges::find_if(inputs, same);
    if (input != inputs.end()) kept.tensor.input = static_cast<int>(input - inputs.begin());
    kept.tensor.output = input == inputs.end() && std::ranges::any_of(outputs, same);
  }

  std::unordered_map<uint64_t, Note> notes_;
  std::vector<Keeping> waiting_;  // what the op that is being recorded saves
  NotingHooks hooks_;             // last: it is the first to go
};

namespace {

/// Every node from which a gradient can go on, in the order in which they were made.
std::vector<Node*> nodes_behind(const Tensors& outputs) {
  std::vector<Node*> found, open;
  std::unordered_set<const Node*> seen;
  const auto visit = [&](Node* node) {
    node = op_behind(node);
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  for (const Tensor& t : outputs) visit(gradient_edge(t).node.get());
  while (!open.empty()) {
    Node* const node = open.back();
    open.pop_back();
    found.push_back(node);
    for (const Edge& edge : node->edges) visit(edge.node.get());
  }
  std::ranges::sort(found, {}, [](const Node* node) { return node->number; });
  return found;
}

/// Makes the graph node by node.
class Copy {
 public:
  explicit Copy(const std::vector<Node*>& nodes) {
    for (size_t i = 0; i < nodes.size(); ++i) index_.emplace(nodes[i], static_cast<int>(i));
    graph_.nodes.resize(nodes.size());
  }

  void add(int index, Node& from, const Note* note) {
    RecordedNode& node = graph_.nodes[static_cast<size_t>(index)];
    node.op = from.name;
    if (from.outputs == 1) set_output(node, from.shape, from.dtype);
    if (note != nullptr) {
      if (note->called != from.name) node.called = note->called;
      node.layer = note->layer;
      node.stack = note->stack;
      node.inputs = note->inputs;
      node.gradient_norm = note->gradient_norm;
    }
    node.inputs.resize(from.edges.size());
    for (size_t i = 0; i < from.edges.size(); ++i) connect(node.inputs[i], from.edges[i]);
    if (note == nullptr) return;
    for (const Keeping& kept : note->saved) {
      node.saved.push_back(kept.tensor);
      node.saved.back().shared = !memory_.insert(kept.memory).second;
    }
  }

  RecordedGraph take() { return std::move(graph_); }

 private:
  static void set_output(RecordedNode& node, const Shape& shape, DType dtype) {
    node.shape = shape;
    node.dtype = dtype;
  }

  void connect(RecordedInput& input, const Edge& edge) {
    if (edge.leaf) {
      const auto [at, fresh] =
          leaf_at_.try_emplace(edge.leaf.get(), static_cast<int>(graph_.leaves.size()));
      if (fresh) {
        graph_.leaves.emplace_back(edge.leaf);
        memory_.insert(edge.leaf->storage.get());
      }
      input.leaf = at->second;
      input.shape = edge.leaf->shape;
      input.dtype = edge.leaf->dtype;
    } else if (edge.node) {
      input.node = index_.at(op_behind(edge.node.get()));
      input.shape = edge.node->shape;
      input.dtype = edge.node->dtype;
      RecordedNode& from = graph_.nodes[static_cast<size_t>(input.node)];
      if (is_output(*edge.node) && from.shape.empty()) set_output(from, input.shape, input.dtype);
    }
  }

  RecordedGraph graph_;
  std::unordered_map<const Node*, int> index_;
  std::unordered_map<const TensorImpl*, int> leaf_at_;
  std::unordered_set<const Storage*> memory_;  // of leaves, and of what is saved so far
};

}  // namespace

int64_t RecordedNode::saved_bytes() const {
  int64_t bytes = 0;
  for (const SavedTensor& t : saved) bytes += t.shared ? 0 : t.bytes;
  return bytes;
}

int64_t RecordedGraph::saved_bytes() const {
  int64_t bytes = 0;
  for (const RecordedNode& node : nodes) bytes += node.saved_bytes();
  return bytes;
}

GraphRecorder::GraphRecorder() : watch_(std::make_unique<Watch>()) {}

GraphRecorder::~GraphRecorder() = default;

RecordedGraph GraphRecorder::graph(const Tensors& outputs) const {
  profile::raise_found();
  const std::vector<Node*> nodes = nodes_behind(outputs);
  Copy copy(nodes);
  for (size_t i = 0; i < nodes.size(); ++i)
    copy.add(static_cast<int>(i), *nodes[i], watch_->note_of(nodes[i]->number));
  return copy.take();
}

}  // namespace lathe::autograd
