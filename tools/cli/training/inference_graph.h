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

/// Makes the model's graph, optimised for inference; with --amp it is traced under Autocast. The
/// graph takes images in f32, but on a GPU with --amp in the half type. The model stays unchanged,
/// in evaluation mode. No convolution engine is timed.
///   model   in evaluation mode, on the device
///   image   [C,H,W]
/// throws: jit::TraceError; OutOfMemoryError; what the model throws for such an image.
jit::Graph inference_graph(nn::Module& model, const Shape& image, Device device,
                           const Settings& settings);

/// Returns the module that computes the model's scores without gradients, for scores_of().
///   - Usually this is the model itself.
///   - On a GPU with --amp fp16, if fused kernels may be chosen (cudnn::fusion(),
///     --cudnn-benchmark, no --deterministic), it is a module that runs the model's graph. Batch
///     norms are folded into the filters (jit::optimize_for_inference). This module takes batches
///     of any size and has no parameters, and the model is destroyed.
///   - If this graph cannot be made (no trace, too little memory, a folded filter beyond f16), it
///     is the model, and a line in `log` says why.
///   model   in evaluation mode, on the device
///   image   [C,H,W]
/// throws: what the model throws for such an image.
std::unique_ptr<nn::Module> for_inference(std::unique_ptr<nn::Module> model, const Shape& image,
                                          Device device, const Settings& settings, Log& log);

}  // namespace lathe::cli
