// GraphModule: a graph as a module that trains.
//   jit::GraphModule model = jit::load_onnx_module("resnet18.onnx");
//   const Tensor loss = cross_entropy(model(images), labels);
//   jit::save_onnx(model.graph(), "trained.onnx");
// module_tree.h: the modules below it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/graph/graph.h"
#include "lathe/nn/fine_tuning.h"
#include "lathe/nn/module.h"

namespace lathe::jit {

/// Runs a graph with the library's ops, so gradients, autocast, recomputation and functional_call
/// work as for any module. Its parameters and buffers have the graph's names. Dots in a name make
/// modules: "conv1.weight" is the parameter "weight" of a module "conv1". Constants are not in the
/// state dict; to() moves and converts them together with the parameters.
///
/// The mode that train() or eval() sets, for the model or for a module in it, decides what batch
/// norms and dropouts do. The mode in which the graph was made has no influence.
///   - In training, a batch norm uses the statistics of the batch and updates its running
///     statistics. It follows the mode of the module that holds its running mean.
///   - A dropout draws in training and returns its input in evaluation. It follows the mode of the
///     whole model. Graphs that trace() made have no dropouts.
///
/// The model computes in the dtype of its parameters: after to(kF16), ops that are f32 in the graph
/// compute in f16. Only the tensors of batch norms stay f32. The model takes hooks; the modules in
/// it refuse them. Several threads may run it in evaluation mode.
class LATHE_API GraphModule final : public nn::Module, public nn::KnowsHead {
 public:
  /// The module's tensors share the graph's memory. All of its parameters require gradients; this
  /// does not change the graph's own tensors. `name` stands for the graph in messages.
  /// throws: StateError if a parameter, buffer or constant is not bound; DataError if the name of a
  /// parameter or buffer is not allowed in a module or has more than 1,000 bytes, if modules are
  /// nested more than 64 deep, or if one holds more than 10,000 tensors and modules.
  explicit GraphModule(Graph graph, std::string_view name = "graph");
  ~GraphModule() override;
  GraphModule(GraphModule&&) = delete;

  /// Runs a graph that has one input. Returns its result, or the first of several results.
  /// throws: what run() throws.
  Tensor forward(const Tensor& x) override;
  /// The results, in the order of the graph's outputs.
  /// throws: what Graph::run() throws.
  Tensors run(const Tensors& inputs);

  /// Returns the graph in training mode, with its dropouts. The graph shares the module's tensors.
  /// So does a GraphModule made from a copy of the graph: training one trains the other. Use the
  /// graph to give the model another last layer (replace_head()), or to store its text().
  const Graph& training_graph() const;

  /// The graph in evaluation mode, for save() and save_onnx(). It shares the memory of the module's
  /// present weights.
  /// throws: StateError if to() has given a tensor another dtype than the graph's.
  Graph graph() const;

  /// The weight and the bias that replace_head() would replace; none if it cannot.
  std::vector<std::string> head_parameters() const override;

  /// True if the names of a batch norm's statistics have no dots, so that the statistics belong to
  /// the model itself and not to a module in it. This batch norm follows the mode of the whole
  /// model: nn::Frozen::hold() keeps it in evaluation mode only if all parameters are frozen.
  bool has_running_statistics() const override;

 private:
  bool takes_one_tensor() const override;
  DType dtype_for(DType asked, const Tensor& own) const override;

  class State;
  std::unique_ptr<State> state_;
};

}  // namespace lathe::jit
