// RecordedGraph: what a step has recorded, as plain data for tables and pictures.
//   autograd::GraphRecorder recorder;
//   const Tensor loss = cross_entropy(model(x), y);
//   loss.backward();
//   const autograd::RecordedGraph graph = recorder.graph({loss});
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/dtype.h"
#include "lathe/core/tensor.h"

namespace lathe::autograd {

/// A tensor that an op keeps until its gradient is computed.
struct SavedTensor {
  Shape shape;
  DType dtype = DType::kF32;
  int64_t bytes = 0;
  int input = -1;       // it is this input of the op …
  bool output = false;  // … or its output; neither: something that the op computed beside it
  // Its memory is there anyway: a leaf's, or what is kept for an earlier tensor.
  bool shared = false;
};

/// Where an input of a node comes from: another node, a leaf that requires grad, or neither.
struct RecordedInput {
  int node = -1;  // index into RecordedGraph::nodes
  int leaf = -1;  // index into RecordedGraph::leaves
  bool defined = true;
  Shape shape;
  DType dtype = DType::kF32;

  bool wants_gradient() const { return node >= 0 || leaf >= 0; }
};

/// An op's place in the graph. What a recorder tells was known only while it lived.
struct LATHE_API RecordedNode {
  std::string op;      // "index_select"
  std::string called;  // the op that the program called if it is another one: "embedding"
  std::string layer;   // whose forward pass made the call, "Net.conv1"; empty outside of any
  std::vector<void*> stack = {};  // return addresses of the call, innermost first
  std::vector<RecordedInput> inputs = {};
  Shape shape;  // of the output; of several outputs: of the first one that is used
  DType dtype = DType::kF32;
  std::vector<SavedTensor> saved = {};
  std::optional<double> gradient_norm = {};  // 2-norm of dL/d(output), once backward() has passed

  /// Bytes that are kept for this node's sake: of what is not shared.
  int64_t saved_bytes() const;
};

struct LATHE_API RecordedGraph {
  std::vector<RecordedNode> nodes;  // in the order of the program: inputs come before their users
  std::vector<Tensor> leaves;       // those that require grad, by first use

  int64_t saved_bytes() const;
};

/// Watches the graphs that its thread records, and the backward passes through them. What ops save
/// by other means than Saved, in practice the statistics of normalisations, is not listed; nor is
/// what an op saves inside of SavedTensorHooks that were made after the recorder. Each op costs its
/// call stack, each gradient a norm on the host (on a GPU a copy and a wait).
class LATHE_API GraphRecorder {
 public:
  GraphRecorder();
  /// On the same thread, and after SavedTensorHooks that were made later.
  ~GraphRecorder();
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;

  /// The graph behind these tensors, before or after backward().
  RecordedGraph graph(const Tensors& outputs) const;

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace lathe::autograd
