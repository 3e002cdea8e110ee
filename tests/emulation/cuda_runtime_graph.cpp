// Graphs of the emulated CUDA runtime: a capture notes what its stream is given, and a launch
// queues it. See cuda_runtime_machine.h.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "cuda_runtime_machine.h"
#include "kernel_name.h"
#include "lathe/core/error.h"

using namespace lathe::emulation;

namespace {
constexpr auto kStreamCaptureInvalidated = static_cast<cudaError_t>(901);
constexpr auto kStreamCaptureUnjoined = static_cast<cudaError_t>(904);

/// What every call here begins with.
cudaError_t problem(bool arguments_are_good) {
  if (machine().failed) return cudaErrorLaunchFailure;
  if (runtime_probe().graph_fault.hit()) return cudaErrorMemoryAllocation;
  return arguments_are_good ? cudaSuccess : cudaErrorInvalidValue;
}

cudaGraph_t keep(std::unique_ptr<GraphState> graph) {
  ++runtime_probe().graphs;
  return graph.release();
}

/// What a GPU would do with memory that is not the graph's any more, nobody knows.
std::function<void()> complaint(size_t node, const MemoryUse& stale) {
  return [node, stale] {
    const std::string place = stale.kernel == nullptr
                                  ? "one end of its copy"
                                  : lathe::concat("argument ", stale.argument, ", byte ",
                                                  stale.byte, ", of ", kernel_name(stale.kernel));
    LATHE_FAIL(lathe::CudaError, "graph: node ", node + 1, ": ", place,
               ": the memory was given back after it was recorded");
  };
}

cudaError_t destroy(GraphState* graph) {
  if (graph == nullptr) return result(cudaErrorInvalidValue);
  delete graph;
  --runtime_probe().graphs;
  return cudaSuccess;
}
}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Call call;
  const bool good = stream != nullptr && find_stream(stream) != nullptr;
  if (const cudaError_t error = problem(good); error != cudaSuccess) return result(error);
  if (machine().captured != nullptr) return result(kStreamCaptureUnsupported);
  machine().captured = stream;
  machine().capture = CaptureState{.graph = std::make_unique<GraphState>(),
                                   .mode = mode,
                                   .thread = std::this_thread::get_id(),
                                   .number = ++machine().captures_made};
  machine().capture->order[find_stream(stream)] = {};
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Call call;
  *graph = nullptr;
  if (!machine().capture || machine().captured != stream) return result(cudaErrorInvalidValue);
  CaptureState capture = std::move(*machine().capture);
  machine().capture.reset();
  machine().captured = nullptr;
  if (const cudaError_t error = problem(true); error != cudaSuccess) return result(error);
  if (capture.broken) return result(kStreamCaptureInvalidated);
  const CaptureOrder& waited_for = capture.order[find_stream(stream)];
  for (const auto& [branch, order] : capture.order) {
    const auto joined = waited_for.find(branch);
    const auto given = order.find(branch);
    if (given != order.end() && (joined == waited_for.end() || joined->second < given->second))
      return result(kStreamCaptureUnjoined);
  }
  *graph = keep(std::move(capture.graph));
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  const Call call;
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  const Call call;
  *executable = nullptr;
  if (const cudaError_t error = problem(graph != nullptr); error != cudaSuccess)
    return result(error);
  *executable = keep(std::make_unique<GraphState>(*graph));
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const Call call;
  StreamState* const state = find_stream(stream);
  const cudaError_t error = problem(executable != nullptr && state != nullptr);
  if (error != cudaSuccess) return result(error);
  if (const cudaError_t refusal = capture_problem(stream); refusal != cudaSuccess) {
    return result(refusal);
  }
  if (runtime_probe().idle) return cudaSuccess;
  for (size_t i = 0; i < executable->nodes.size(); ++i) {
    const auto& [run, uses, queue] = executable->nodes[i];
    if (queue) {
      queue(*state);
      continue;
    }
    const auto stale = std::ranges::find_if(
        uses, [](const MemoryUse& use) { return use.birth != birth_at(use.memory); });
    submit(*state, stale == uses.end() ? run : complaint(i, *stale), uses);
  }
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Call call;
  return destroy(graph);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const Call call;
  return destroy(executable);
}
