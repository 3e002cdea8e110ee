// The model of eval, predict and report as a graph, in which a convolution with its bias, residual
// and relu is one kernel of cuDNN.
#pragma once

#include <memory>

#include "lathe/core/device.h"
#include "lathe/core/shape.h"
#include "lathe/graph/graph.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// The model's graph as --amp says: traced under Autocast, and optimised for inference. It takes
/// images in f32; on a GPU with --amp those of the half type, as batches there are made of.
/// The model is left in evaluation mode and unchanged; nothing is timed for the trace.
///   model   in evaluation mode, on the device
///   image   [C,H,W]
/// throws: jit::TraceError; OutOfMemoryError; what the model throws for such an image.
jit::Graph inference_graph(nn::Module& model, const Shape& image, Device device,
                           const Settings& settings);

/// What computes the model's scores without gradients, for scores_of().
/// On a GPU with --amp fp16, where fused kernels may be chosen (cudnn::fusion(), --cudnn-benchmark
/// without --deterministic): a module that runs the model's graph with its batch norms folded into
/// the filters (jit::optimize_for_inference), for batches of any size. The model is given up, and
/// the module has no parameters. Elsewhere the model itself; also, with a line in `log`, where it
/// cannot be traced, memory does not suffice for that, or a folded filter is beyond f16.
///   model   in evaluation mode, on the device
///   image   [C,H,W]
/// throws: what the model throws for such an image.
std::unique_ptr<nn::Module> for_inference(std::unique_ptr<nn::Module> model, const Shape& image,
                                          Device device, const Settings& settings, Log& log);

}  // namespace lathe::cli
