// trace: records the ops that a model or a function calls, as a Graph that runs without the model.
#pragma once

#include <functional>

#include "lathe/core/error.h"
#include "lathe/graph/graph.h"
#include "lathe/nn/module.h"

namespace lathe::jit {

/// Thrown if the traced program does something that a graph cannot hold. The message names the op,
/// its layer, and where in the source it was called.
class LATHE_API TraceError : public Error {
  using Error::Error;
};

struct TraceOptions {
  // true: the graph takes batches of any size. The batch size is dimension 0 of the first input,
  // and of all inputs with as many rows. false: only inputs of the examples' shapes.
  bool dynamic_batch = true;
  // The module that the function calls: the graph uses the names of its parameters and buffers.
  // Other tensors that a function uses become constants.
  const nn::Module* module = nullptr;
};

/// Records the ops of `f` as a graph. Calls `f` twice under NoGrad, once with the examples and once
/// with other values. With dynamic_batch, the second call has 2 * N + 1 rows if the examples have
/// N, so examples of one or two rows are cheap. A number that differs between the calls must be a
/// multiple of the batch size. A tensor that `f` makes from none of its inputs must be the same in
/// both calls, or have a row for each sample and equal rows. `f` gets copies of the examples, with
/// their strides. The graph shares the tensors that `f` uses. If Autocast is on, around trace() or
/// within `f`, the casts that it makes become nodes of the graph. Run such a graph without
/// Autocast: it gives the dtypes and bits that `f` gives with Autocast.
/// Tracing does not see
///   - a branch that both calls take in the same way
///   - memory that the program reads through data()
///   - detach() and NoGrad: gradients flow through the graph even there
/// throws: ValueError without examples, or for an undefined one; what `f` throws. TraceError if a
/// parameter or buffer of the module has a name that the text cannot hold (is_name()), or if `f`
///   - reads values of a traced tensor on the host (item(), to_vector())
///   - draws random numbers or writes into a traced tensor, as models in training mode do: call
///     eval() first
///   - calls an op that graphs do not hold (op_table.h)
///   - takes another branch for other values or another batch size
///   - returns a tensor that depends on its input through something that tracing did not see
LATHE_API Graph trace(const std::function<Tensors(const Tensors&)>& f, const Tensors& examples,
                      const TraceOptions& options = {});
/// Records the ops of a module whose forward() takes one tensor.
LATHE_API Graph trace(nn::Module& module, const Tensor& example, TraceOptions options = {});

}  // namespace lathe::jit
