// Conv2dPlanner in a build without cuDNN.
#include "lathe/core/error.h"
#include "lathe/ops/conv/cudnn/conv2d_planner.h"

namespace lathe {

struct Conv2dPlanner::Gpu {};

Conv2dPlanner::Conv2dPlanner(const GpuDescription& gpu) {
  LATHE_FAIL(NoCudaError, "plans for ", gpu.name,
             ": this build was made without cuDNN; configure with -DLATHE_CUDA=ON");
}
Conv2dPlanner::~Conv2dPlanner() = default;
ConvChoice Conv2dPlanner::plan(const ConvKey&) const { return {}; }
std::string Conv2dPlanner::library() const { return ""; }

}  // namespace lathe
