// What only calls on GPUs have: streams, memory, ranks without a GPU of their own. What they
// compute, and what ranks are told: the other tests with LATHE_TEST_DEVICE=cuda. NCCL's own
// failures: nccl_failures_test.cpp.
#include <string>
#include <utility>
#include <vector>

#include "gpu_ranks.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/cuda.h"
#include "lathe/distributed/device_backend.h"
#include "lathe/distributed/process_group.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#ifdef LATHE_CUDA_EMULATED
#  include "lathe/tests/emulation/nccl_emulation.h"
#endif

using namespace lathe;
using namespace lathe::distributed;
using namespace lathe::test;

namespace {

/// Whether the emulated NCCL was given the last call on this stream. A real one does not tell.
bool is_emulated_stream_of_call([[maybe_unused]] Stream stream) {
#ifdef LATHE_CUDA_EMULATED
  return emulation::nccl_probe().stream == stream.native;
#else
  return false;
#endif
}

}  // namespace

// In a process of its own, as every rank: what it loads is not there for the others.
TEST_CASE("nccl: one rank on a GPU" * cuda_case()) {
  const Ranks::Body body = [](const GroupOptions&) -> std::string {
    const Device device = gpu(0);
    if (const std::string problem = device_backend_problem(device); !problem.empty())
      return problem;
    const auto backend = make_device_backend(0, 1, device, 60'000, make_communicator_id());
    backend->connect();
    const Tensor t = tensor({1.0, 2.0, 3.0}).to(kF32).to(device),
                 all = zeros({3}, {.device = device});
    Event ready(device), reached(device);
    ready.record(current_stream(device));
    ready.block(backend->stream());
    backend->all_reduce(t.raw_data(), 3, kF32, Reduce::kAverage);
    backend->broadcast(t.raw_data(), 12, 0);
    backend->all_gather(all.raw_data(), t.raw_data(), 12);
    backend->reduce_scatter(t.raw_data(), all.raw_data(), 3, kF32, Reduce::kSum);
    reached.record(backend->stream());
    backend->watch(reached, [] { return false; });
    require(t.to_vector<float>() == std::vector<float>{1, 2, 3}, "t");
    require(all.to_vector<float>() == std::vector<float>{1, 2, 3}, "all");
    backend->leave();
    try {
      backend->broadcast(t.raw_data(), 12, 0);
    } catch (const DeviceBackendError& error) {
      return error.what();
    }
    return "no error";
  };
  check_all(1, 60, body, "NCCL: ncclBroadcast: comes after an abort");
}

TEST_CASE(
    "nccl: one rank's calls in a captured graph, which outlives the communicator's last call" *
    cuda_case()) {
  const Ranks::Body body = [](const GroupOptions&) -> std::string {
    const Device device = gpu(0);
    if (const std::string problem = device_backend_problem(device); !problem.empty())
      return problem;
    const auto backend = make_device_backend(0, 1, device, 60'000, make_communicator_id());
    backend->connect();
    const Tensor t = zeros({3}, {.device = device}), all = zeros({3}, {.device = device});
    {
      cuda::Graph graph(device);
      graph.capture([&] {
        Event ready(device), reached(device);
        t.add_(1.0);
        ready.record(current_stream(device));
        ready.block(backend->stream());
        backend->all_reduce(t.raw_data(), 3, kF32, Reduce::kSum);
        backend->all_gather(all.raw_data(), t.raw_data(), 12);
        reached.record(backend->stream());
        reached.block(current_stream(device));
        all.mul_(2.0);
      });
      for (const float launch : {1, 2, 3}) {
        graph.launch();
        require(t.to_vector<float>() == std::vector<float>(3, launch), "t");
        require(all.to_vector<float>() == std::vector<float>(3, 2 * launch), "all");
      }
    }
    backend->leave();
    return "right";
  };
  check_all(1, 60, body, "right");
}

TEST_CASE("nccl: a call waits for the stream, the stream for the call, and the host for neither" *
          gpus_case(2)) {
  check_all(
      2, 60,
      [](const GroupOptions& options) -> std::string {
        const Device device = gpu(options.rank);
        ProcessGroup group(options);
        require(group.queues_on(device) && !group.queues_on(kCPU), "not over NCCL");
        const Tensor t = ones({1000}, {.device = device});
        const uint64_t waits = cuda::counters().synchronizations;
        t.mul_(static_cast<double>(options.rank + 1));
        Work work = group.all_reduce_(t);
        work.wait();
        t.mul_(2.0);
        require(cuda::counters().synchronizations == waits, "the host waited");
        require(!is_emulated_stream_of_call(current_stream(device)), "its own stream");
        require(t.sum().item<double>() == 6000, "another sum");
        const Tensor column = ones({4, 3}, {.dtype = kI16, .device = device}).select(1, 1);
        group.all_reduce_(column).wait();
        require(column.sum().item<double>() == 8, "another sum of a column");
        group.barrier().wait();
        require(work.done(), "a barrier does not wait for earlier calls");
        return "right";
      },
      "right");
}

TEST_CASE("nccl: memory that a call uses is not handed out before the call is over" *
          gpus_case(2)) {
  check_all(
      2, 60,
      [](const GroupOptions& options) -> std::string {
        const Device device = gpu(options.rank);
        ProcessGroup group(options);
        Tensor t = ones({1000}, {.device = device});
        group.all_reduce_(t).wait();
        t.sum().item<double>();
        for (int i = 0; i < 3; ++i) {
          Tensor given = ones({1000}, {.device = device});
          const void* const memory = given.raw_data();
          const Work work = group.all_reduce_(given);
          given = Tensor();
          const Tensor next = empty({1000}, {.device = device});
          if (next.raw_data() == memory) return work.done() ? "right" : "handed out";
        }
        return "right";
      },
      "right");
}

TEST_CASE("nccl: ranks that share a GPU are named" * cuda_case()) {
  check_all(
      2, 60,
      [](const GroupOptions& options) -> std::string {
        ProcessGroup group(options);
        group.all_reduce_(ones({2}, {.device = gpu(0)})).wait();
        return "no error";
      },
      "use the same GPU, cuda:0; NCCL needs one for each rank");
}

TEST_CASE("nccl: another GPU is refused" * gpus_case(3)) {
  check_all(
      2, 60,
      [](const GroupOptions& options) -> std::string {
        ProcessGroup group(options);
        group.all_reduce_(ones({2}, {.device = gpu(options.rank)})).wait();
        try {
          group.all_reduce_(ones({2}, {.device = gpu(options.rank + 1)}));
        } catch (const DeviceError& error) {
          return error.message();
        }
        return "no error";
      },
      "its calls are on cuda:");
}
