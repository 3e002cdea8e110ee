// GraphModule: modules from a graph's names, and the graph of a mode, device and dtype.
#include "lathe/graph/graph_module.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/graph/module_tree.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/replace_head.h"
#include "lathe/ops/batch_norm.h"

namespace lathe::jit {

namespace {

const Op* norm_in_training(const std::string& name) {
  return find_op(name, std::array<std::string, 3>{"training", "momentum", "eps"});
}

/// Which input is the running mean of a batch norm; -1 for other nodes, and without statistics.
int running_mean_of(const Node& node) {
  if (!node.op->name.starts_with("batch_norm")) return -1;
  const int at = norm_in_training(node.op->name)->writes.at(0);
  return node.inputs.at(static_cast<size_t>(at)) < 0 ? -1 : at;
}

/// The batch norm in a mode, in the form that moves the running statistics or the one that does
/// not.
void set_training(Node& node, bool training) {
  if (!training) {
    const Attribute eps = attribute_of(node, "eps");
    node.op = find_op(node.op->name, std::array<std::string, 2>{"training", "eps"});
    node.inputs.resize(static_cast<size_t>(node.op->inputs));
    node.attributes = {false, eps};
  } else if (find_attribute(node, "momentum") == nullptr) {
    const Attribute eps = attribute_of(node, "eps");
    node.op = norm_in_training(node.op->name);
    node.inputs.resize(static_cast<size_t>(node.op->inputs) + 1, -1);  // no count of batches
    node.attributes = {true, BatchNormOptions{}.momentum, eps};
  }
}

/// Leaves out the dropouts: their readers read their inputs.
void leave_out_dropouts(Graph& graph) {
  std::vector<int> stands_for(graph.values.size());
  for (size_t i = 0; i < stands_for.size(); ++i) stands_for[i] = static_cast<int>(i);
  const auto replace = [&](int& value) {
    if (value >= 0) value = stands_for[static_cast<size_t>(value)];
  };
  for (Node& node : graph.nodes) {
    std::ranges::for_each(node.inputs, replace);
    if (node.op->name == "dropout") {
      stands_for[static_cast<size_t>(node.output)] = node.inputs[0];
    }
  }
  std::ranges::for_each(graph.outputs, replace);
  std::erase_if(graph.nodes, [](const Node& node) { return node.op->name == "dropout"; });
}

}  // namespace

class GraphModule::State {
 public:
  State(Graph graph, std::string name, GraphModule& model)
      : model_(model),
        graph_(std::move(graph)),
        tree_(
            model,
            [&model](const std::string& own, const Tensor& t, bool is_buffer) {
              is_buffer ? void(model.buffer(own, t)) : void(model.parameter(own, t));
            },
            std::move(name), /*knows_calls=*/false) {
    std::vector<Part*> parts;  // of the values
    for (Value& value : graph_.values) parts.push_back(add(value));
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      Node& node = graph_.nodes[n];
      const int mean = running_mean_of(node);
      if (mean >= 0) {
        set_training(node, true);
        Part* const part = parts[static_cast<size_t>(node.inputs[static_cast<size_t>(mean)])];
        norms_.push_back({n, part});
        (part != nullptr ? part->holds_statistics : has_own_statistics) = true;
        for (int i = mean - 2; i < mean + 2; ++i) {
          const int value = node.inputs[static_cast<size_t>(i)];
          if (value >= 0) note_norm(graph_.values[static_cast<size_t>(value)]);
        }
      }
    }
    for (size_t i = 0; i < graph_.values.size() && leading_ < 0; ++i) {
      const Value& value = graph_.values[i];
      if (value.origin == Origin::kParameter && !tree_.is_of_norm(value.tensor)) {
        leading_ = static_cast<int>(i);
      }
    }
  }

  Tensors run(const Tensors& inputs) {
    return run_graph(*plan(inputs), inputs, {.any_floating = true});
  }

  Graph in_evaluation() const {
    for (const Value& value : graph_.values) {
      LATHE_CHECK(StateError, !value.tensor.defined() || value.tensor.dtype() == value.type.dtype,
                  "GraphModule: @", value.name, " is ", to_text(value.type), " in the graph, and ",
                  value.tensor.dtype(), " now; call to() first");
    }
    Graph graph = graph_;
    for (const Norm& norm : norms_) set_training(graph.nodes[norm.node], false);
    leave_out_dropouts(graph);
    return graph;
  }

  const Graph& graph() const { return graph_; }
  const ModuleTree& tree() const { return tree_; }

  bool has_own_statistics = false;  // of a batch norm; not those of the modules in the model

 private:
  struct Norm {
    size_t node;
    Part* part;  // that holds its running mean; null: the model
  };
  /// What a plan is for.
  struct Key {
    std::vector<bool> training;  // the model, then the norms
    Device device = kCPU;
    DType dtype = kF32;  // of the leading parameter

    bool operator==(const Key&) const = default;
  };

  Part* add(Value& value) {
    if (value.origin == Origin::kInput || value.origin == Origin::kNode) return nullptr;
    LATHE_CHECK(StateError, value.tensor.defined(), "GraphModule: @", value.name,
                " has no tensor yet; call bind()");
    if (value.origin == Origin::kConstant) return nullptr;
    value.tensor = value.tensor.detach();  // what becomes of it is not the caller's
    return tree_.add(value.name, value.tensor, value.origin == Origin::kBuffer);
  }

  void note_norm(const Value& value) {
    if (value.tensor.defined()) tree_.note_norm(value.tensor);
  }

  /// The graph for the present mode, device and dtype.
  std::shared_ptr<const Graph> plan(const Tensors& inputs) {
    Key key{{model_.is_training()}};
    for (const Norm& norm : norms_) {
      key.training.push_back(norm.part != nullptr ? norm.part->is_training()
                                                  : model_.is_training());
    }
    const Tensor leading = leading_ < 0 ? Tensor() : graph_.values[size_t(leading_)].tensor;
    if (leading.defined()) {
      key.device = leading.device(), key.dtype = leading.dtype();
    } else if (!inputs.empty() && inputs[0].defined()) {
      key.device = inputs[0].device();
    }
    const std::lock_guard lock(mutex_);
    if (plan_ == nullptr || key != key_) {
      plan_ = std::make_shared<const Graph>(made(key));
      key_ = std::move(key);
    }
    return plan_;
  }

  Graph made(const Key& key) const {
    Graph graph = graph_;
    for (size_t i = 0; i < norms_.size(); ++i) {
      set_training(graph.nodes[norms_[i].node], key.training[i + 1]);
    }
    if (!key.training[0]) leave_out_dropouts(graph);
    const DType from =
        leading_ < 0 ? key.dtype : graph_.values[static_cast<size_t>(leading_)].type.dtype;
    // The constants outlive this call, which InferenceMode would mark them for.
    const autograd::ModeScope neither({.grad = false, .inference = false});
    for (Value& value : graph.values) {
      if (value.origin != Origin::kConstant) continue;
      value.tensor = value.tensor.to(key.device);
      if (value.tensor.dtype() == from) value.tensor = value.tensor.to(key.dtype);
    }
    const Attribute word(std::string(name_of(from)));
    for (Node& node : graph.nodes) {
      if (key.dtype != from) node.group = 0;  // a group is made for the graph's dtypes
      if (node.op->name != "cast") continue;
      std::ranges::replace(node.attributes, word, Attribute(std::string(name_of(key.dtype))));
    }
    return graph;
  }

  GraphModule& model_;
  Graph graph_;  // its batch norms in training, with its dropouts
  ModuleTree tree_;
  std::vector<Norm> norms_;
  int leading_ = -1;  // the first parameter that is of no batch norm; or -1
  std::mutex mutex_;  // of what follows
  Key key_;
  std::shared_ptr<const Graph> plan_;
};

GraphModule::GraphModule(Graph graph, std::string_view name)
    : state_(std::make_unique<State>(std::move(graph), std::string(name), *this)) {}

GraphModule::~GraphModule() = default;

bool GraphModule::takes_one_tensor() const {
  return state_->graph().inputs.size() == 1 && state_->graph().outputs.size() == 1;
}

bool GraphModule::has_running_statistics() const { return state_->has_own_statistics; }

DType GraphModule::dtype_for(DType asked, const Tensor& own) const {
  return state_->tree().dtype_for(asked, own);
}

Tensor GraphModule::forward(const Tensor& x) { return state_->run({x})[0]; }

Tensors GraphModule::run(const Tensors& inputs) {
  if (takes_one_tensor() && inputs.size() == 1) return {(*this)(inputs[0])};
  return with_call_hooks(inputs, [&] { return state_->run(inputs); });
}

const Graph& GraphModule::training_graph() const { return state_->graph(); }

std::vector<std::string> GraphModule::head_parameters() const {
  return jit::head_parameters(state_->graph());
}

Graph GraphModule::graph() const { return state_->in_evaluation(); }

}  // namespace lathe::jit
