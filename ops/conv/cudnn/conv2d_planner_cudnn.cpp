// The search over cuDNN's engines for a described GPU. Contract: conv2d_planner.h.
#include "lathe/ops/conv/cudnn/conv2d_planner.h"

#include "lathe/core/error.h"
#include "lathe/core/gpu/cudnn_described.h"
#include "lathe/ops/conv/cudnn/conv2d_graph_cudnn.h"

namespace lathe {

namespace {

/// As if a stream were captured: engines are made ready, and nothing runs.
class DescribedEngines final : public ConvEngines {
 public:
  DescribedEngines(const ConvKey& key, const cudnn::Descriptor& gpu)
      : gpu_(gpu), graph_(cuda::conv2d_graph(key)) {}

  std::vector<ConvEngineInfo> suggested(ConvHeuristic heuristic) override {
    return cuda::conv2d_suggested(graph_, heuristic, found_, &gpu_);
  }
  int64_t prepare(const ConvEngine& engine) override {
    const cudnn::Descriptor plan = cudnn::plan_for(found_.at(engine), gpu_);
    return plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  }
  ConvTime time(const ConvEngine&, int) override { fail(); }
  void execute(const ConvEngine&) override { fail(); }
  int64_t available_bytes() override { return INT64_MAX; }
  bool capturing() override { return true; }

 private:
  [[noreturn]] static void fail() {
    LATHE_FAIL(StateError, "conv2d: nothing runs on a GPU that is only described");
  }

  const cudnn::Descriptor& gpu_;
  const cudnn::OperationGraph graph_;
  cuda::Conv2dConfigs found_;
};

}  // namespace

struct Conv2dPlanner::Gpu {
  cudnn::Descriptor properties;
};

Conv2dPlanner::Conv2dPlanner(const GpuDescription& gpu)
    : gpu_(new Gpu{cudnn::device_properties(gpu)}) {}
Conv2dPlanner::~Conv2dPlanner() = default;

ConvChoice Conv2dPlanner::plan(const ConvKey& key) const {
  DescribedEngines engines(key, gpu_->properties);
  const auto clock = [] { return 0.0; };
  return choose_engine(key, engines, {}, clock, false);
}

std::string Conv2dPlanner::library() const { return "cudnn " + cudnn::version(); }

}  // namespace lathe
