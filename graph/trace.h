// trace: the ops that a model or a function calls, as a Graph that runs without it.
//   const jit::Graph graph = jit::trace(model.eval(), images);
//   const Tensor scores = graph(other_images);
// tracer.h: what is recorded; trace.cpp: the two runs, and what they have in common.
#pragma once

#include <functional>

#include "lathe/core/error.h"
#include "lathe/graph/graph.h"
#include "lathe/nn/module.h"

namespace lathe::jit {

/// The program does what a graph cannot hold. The message names the op, the layer and the place.
class LATHE_API TraceError : public Error {
  using Error::Error;
};

struct TraceOptions {
  // true: the graph takes batches of any size; the size is dimension 0 of the first input, and of
  // all inputs that have as many rows. false: only inputs of the examples' shapes.
  bool dynamic_batch = true;
  // Its parameters and buffers have their names in the graph. Other tensors that a function uses
  // become constants.
  const nn::Module* module = nullptr;
};

/// The graph of `f`, which is called twice under NoGrad: with the examples, and with other values
/// of them; with dynamic_batch these have 2 * N + 1 rows for N, so an example of one or two rows is
/// cheap. What is not the same in both, and not a multiple of the batch, cannot be part of a graph.
/// The graph shares the tensors that it uses. `f` gets copies of the examples, with their strides.
/// Where Autocast is on, around this call or in a scope that `f` opens, its casts are nodes of the
/// graph. Run such a graph outside of the scope: it has the dtypes and the bits that `f` has in it.
/// What tracing does not see is a branch that both examples take in the same way, memory that the
/// program reads through data(), and detach() and NoGrad: the graph's gradients pass there.
/// throws: TraceError if the program reads values of a traced tensor on the host (item(),
/// to_vector()), draws random numbers, writes into a traced tensor, calls an op that graphs do not
/// hold (op_table.h), takes another way for other values or another batch, or returns a tensor that
/// depends on its input in a way that was not seen. A model in training mode does several of these:
/// call eval() first. TraceError for a module with a name that the text cannot hold (is_name()).
/// ValueError without examples; what `f` throws.
LATHE_API Graph trace(const std::function<Tensors(const Tensors&)>& f, const Tensors& examples,
                      const TraceOptions& options = {});
/// The graph of a module whose forward() takes one tensor.
LATHE_API Graph trace(nn::Module& module, const Tensor& example, TraceOptions options = {});

}  // namespace lathe::jit
