// The trace, the checks of for_inference(), and the module that runs it.
#include "lathe/tools/cli/training/inference_graph.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/trace.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv/search/cudnn_settings.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/no_search.h"

namespace lathe::cli {
namespace {

/// Takes images in f16, which batches on a GPU are made of, and in f32.
class GraphOfModel final : public nn::Module {
 public:
  explicit GraphOfModel(jit::Graph graph) : graph_(std::move(graph)) {}
  Tensor forward(const Tensor& x) override {
    const Autocast off(x.device(), kF16, false);  // its casts are in the graph
    return graph_(cast(x, kF16));
  }

 private:
  jit::Graph graph_;
};

bool is_beyond_f16(const jit::Graph& graph) {
  return std::ranges::any_of(graph.values, [](const jit::Value& value) {
    return value.tensor.defined() && value.tensor.dtype() == kF16 &&
           any(isinf(value.tensor)).item<bool>();
  });
}

}  // namespace

jit::Graph inference_graph(nn::Module& model, const Shape& image, Device device,
                           const Settings& settings) {
  const NoSearch no_search;  // a trace runs batches of one image and of three
  const NoGrad off;
  Shape one{1};
  for (const int64_t size : image) one.push_back(size);
  const bool in_half = settings.amp != "off";
  const DType half = settings.amp == "bf16" ? kBF16 : kF16;
  const Tensor x = in_layout(
      zeros(one, {.dtype = in_half && device.is_cuda() ? half : kF32, .device = device}), settings);
  const Autocast scope(device, half, in_half);
  jit::Graph graph = jit::trace(model, x);
  jit::optimize_for_inference(graph);
  return graph;
}

std::unique_ptr<nn::Module> for_inference(std::unique_ptr<nn::Module> model, const Shape& image,
                                          Device device, const Settings& settings, Log& log) {
  const bool may_fuse = device.is_cuda() && settings.amp == "fp16" && cudnn::enabled() &&
                        cudnn::fusion() && cudnn::benchmark() && !settings.deterministic;
  if (!may_fuse) return model;
  std::string why;
  try {
    jit::Graph graph = inference_graph(*model, image, device, settings);
    if (!is_beyond_f16(graph)) return std::make_unique<GraphOfModel>(std::move(graph));
    why = "a weight with its batch norm is beyond 65504";
  } catch (const jit::TraceError& e) {
    why = e.message();
  } catch (const OutOfMemoryError& e) {  // a trace keeps all that it computes
    why = e.message();
  }
  log.line(formatted("the layers are computed one by one, not as a graph: {}", why));
  return model;
}

}  // namespace lathe::cli
