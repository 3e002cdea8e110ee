// When a step is recorded, and what a launch copies.
#include "lathe/tools/cli/training/step_graph.h"

#include "lathe/core/copy.h"
#include "lathe/core/cuda.h"
#include "lathe/core/error.h"

namespace lathe::cli {
namespace {
constexpr int kEagerSteps = 2;
}  // namespace

bool StepGraph::takes(const Tensor& x, const Tensor& y, const Work& work) {
  if (graph_) return x.shape() == shape_;
  if (!problem_.empty()) return false;
  if (!(x.shape() == shape_)) {
    shape_ = x.shape();
    eager_ = 0;
  }
  if (eager_++ < kEagerSteps) return false;
  try {
    record(x, y, work);
    return true;
  } catch (const Error& e) {
    problem_ = e.message();
    tensors_ = {};
    return false;
  }
}

void StepGraph::record(const Tensor& x, const Tensor& y, const Work& work) {
  cuda::empty_cache();  // the memory that the steps before needed: the graph has its own
  cuda::Graph graph(x.device());
  tensors_ = {.x = empty_like(x), .y = empty_like(y), .scores = {}, .loss = {}};
  graph.capture([&] { work(tensors_); });
  // Without their history, whose memory the graph can give to others.
  tensors_.scores = tensors_.scores.detach();
  tensors_.loss = tensors_.loss.detach();
  graph_.emplace(std::move(graph));
}

const StepTensors& StepGraph::launch(const Tensor& x, const Tensor& y) {
  copy_values(tensors_.x, x);
  copy_values(tensors_.y, y);
  graph_->launch();
  return tensors_;
}

}  // namespace lathe::cli
