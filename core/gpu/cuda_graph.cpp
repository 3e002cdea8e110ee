// cuda::Graph over the graphs of the CUDA runtime. Contract: core/capture/cuda_graph.h.
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/gpu/graph_draws.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/memory_cuda.h"
#include "lathe/core/gpu/relaxed_capture.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/memory/block_pool.h"

namespace lathe::cuda {

namespace {

BlockPool::PoolId next_pool() {
  static std::atomic<BlockPool::PoolId> last{0};
  return ++last;
}

using HostWork = std::vector<std::function<void()>>;

/// What a capture collects beside the GPU's work.
struct Collected {
  const Stream outside;  // where the capture was begun
  uint64_t number = 0;
  GraphDraws draws = {};
  HostWork before_launch = {}, after_launch = {}, at_end = {};
};
constinit thread_local Collected* t_collected = nullptr;  // by the capture that this thread makes

uint64_t next_capture() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

/// { Collects scope(collected); … }: before_each_launch(), after_each_launch(), at_end_of_capture()
/// and random draws add to it. At the end generators are where they were: nothing has run.
class Collects {
 public:
  explicit Collects(Collected& collected)
      : collected_(collected), outer_(std::exchange(t_collected, &collected)) {
    collected.number = next_capture();
  }
  ~Collects() {
    t_collected = outer_;
    collected_.draws.rewind();
  }
  Collects(const Collects&) = delete;
  Collects& operator=(const Collects&) = delete;

 private:
  const Collected& collected_;
  Collected* outer_;  // a capture on another GPU
};

/// Destroys what a capture recorded when the executable graph is made, or when nothing came of it.
struct Recording {
  cudaGraph_t graph = nullptr;
  ~Recording() {
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
};

/// What graphs with one pool have in common. A segment of the pool serves one stream.
struct Memory {
  explicit Memory(Device gpu) : stream(gpu), pool(block_pool(gpu)), id(next_pool()), done(gpu) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  const OwnedStream stream;  // of the captures: the default stream cannot be captured
  BlockPool& pool;
  const BlockPool::PoolId id;
  bool has_pool = false;
  bool launched = false;
  Stream last;  // where the last launch was queued
  Event done;   // after the last launch
};

Memory::~Memory() {
  try {
    if (has_pool) pool.release_pool(id);
  } catch (const Error&) {  // of memory; it stays with the process
  }
}

}  // namespace

struct Graph::Impl {
  explicit Impl(Device gpu) : device(gpu), memory(std::make_shared<Memory>(gpu)) {}
  Impl(Device gpu, std::shared_ptr<Memory> shared) : device(gpu), memory(std::move(shared)) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  cudaStream_t native() const { return static_cast<cudaStream_t>(memory->stream.get().native); }
  void record(const std::function<void()>& work, Recording& recording) const;

  const Device device;
  const std::shared_ptr<Memory> memory;
  cudaGraphExec_t executable = nullptr;
  size_t nodes = 0;
  HostWork before, after;  // each launch
  GraphDraws draws;        // of each launch
};

Graph::Impl::~Impl() {
  try {
    const DeviceScope on(device);
    const RelaxedCapture relaxed;  // another graph may be in the making
    if (memory->launched) memory->done.synchronize();
    if (executable != nullptr) cudaGraphExecDestroy(executable);
  } catch (const Error&) {  // a GPU that failed: nothing runs there any more
  }
}

/// A capture is ended on every path, because the thread may not wait for the GPU until then.
void Graph::Impl::record(const std::function<void()>& work, Recording& recording) const {
  // Thread-local: other threads, such as a loader's, may wait and allocate meanwhile.
  LATHE_CUDA_CHECK(cudaStreamBeginCapture(native(), cudaStreamCaptureModeThreadLocal));
  try {
    const StreamScope on(memory->stream);
    work();
    for (size_t i = 0; i < t_collected->at_end.size(); ++i) t_collected->at_end[i]();
  } catch (...) {
    cudaStreamEndCapture(native(), &recording.graph);
    cudaGetLastError();
    throw;
  }
  LATHE_CUDA_CHECK(cudaStreamEndCapture(native(), &recording.graph));
}

void before_each_launch(std::function<void()> work) {
  if (t_collected != nullptr) t_collected->before_launch.push_back(std::move(work));
}

void after_each_launch(std::function<void()> work) {
  if (t_collected != nullptr) t_collected->after_launch.push_back(std::move(work));
}

void at_end_of_capture(std::function<void()> work) {
  if (t_collected != nullptr) t_collected->at_end.push_back(std::move(work));
}

RandomStart reserve_in_capture(Generator& generator, Device device, uint64_t counters) {
  LATHE_CHECK(
      StateError, t_collected != nullptr && t_collected->outside.device == device,
      "random numbers cannot be drawn on ", device,
      " while its work is captured by others than the innermost cuda::Graph of this thread");
  return t_collected->draws.reserve(generator, counters, t_collected->outside);
}

uint64_t capture_number() noexcept { return t_collected == nullptr ? 0 : t_collected->number; }

Graph::Graph(Device device) : impl_(std::make_unique<Impl>(device)) {}
Graph::Graph(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

Graph Graph::with_pool_of(const Graph& other) {
  return Graph(std::make_unique<Impl>(other.impl_->device, other.impl_->memory));
}

void Graph::capture(const std::function<void()>& work) {
  Impl& g = *impl_;
  Memory& m = *g.memory;
  LATHE_CHECK(StateError, g.executable == nullptr,
              "cuda::Graph: capture() a second time; make another graph");
  LATHE_CHECK(StateError, m.pool.options().cache,
              "cuda::Graph: with LATHE_NO_CACHE=1 memory does not stay with a graph");
  LATHE_CHECK(StateError, !capture_underway(g.device),
              "cuda::Graph: capture() within another capture on ", g.device);
  const DeviceScope on(g.device);
  const StreamHandle stream = m.stream.get().native;
  const PrivatePoolScope memory(
      m.pool, m.id, [stream](StreamHandle asking) { return asking == stream; }, stream);
  if (std::exchange(m.has_pool, true)) m.pool.release_pool(m.id);  // a user from before
  Recording recording;
  Collected collected{.outside = current_stream(g.device)};
  {
    const Collects scope(collected);
    g.record(work, recording);
    collected.draws.finish();
  }
  LATHE_CUDA_CHECK(cudaGraphGetNodes(recording.graph, nullptr, &g.nodes));
  LATHE_CUDA_CHECK(cudaGraphInstantiate(&g.executable, recording.graph, 0));
  g.before = std::move(collected.before_launch);
  g.after = std::move(collected.after_launch);
  g.draws = std::move(collected.draws);
}

void Graph::launch() {
  Impl& g = *impl_;
  LATHE_CHECK(StateError, g.executable != nullptr, "cuda::Graph: launch() before capture()");
  const DeviceScope on(g.device);
  const profile::DeviceRange range("CUDA graph launch", g.device);
  const Stream stream = current_stream(g.device);
  Memory& m = *g.memory;
  // What comes before the graph writes memory that the launch before may still read.
  if (m.launched && !(stream == m.last)) m.done.block(stream);
  for (const std::function<void()>& work : g.before) work();
  const std::vector<Generator::State> states = g.draws.states();
  try {
    g.draws.start_launch(stream);
    LATHE_CUDA_CHECK(cudaGraphLaunch(g.executable, static_cast<cudaStream_t>(stream.native)));
  } catch (...) {  // nothing has run
    g.draws.set_states(states);
    throw;
  }
  detail::count_launch();
  m.done.record(stream);
  m.launched = true;
  m.last = stream;
  for (const std::function<void()>& work : g.after) work();
}

size_t Graph::size() const noexcept { return impl_->executable == nullptr ? 0 : impl_->nodes; }

}  // namespace lathe::cuda
