// What only calls on GPUs have: streams, memory, NCCL's own failures, ranks without a GPU of their
// own. What they compute, and what ranks are told: the other tests with LATHE_TEST_DEVICE=cuda.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../cuda_case.h"
#include "lathe/core/cuda.h"
#include "lathe/core/format.h"
#include "lathe/distributed/device_backend.h"
#include "lathe/distributed/process_group.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "parts.h"
#include "patience.h"
#include "ranks.h"
#ifdef LATHE_CUDA_EMULATED
#  include "lathe/tests/emulation/device_failure.h"
#  include "lathe/tests/emulation/nccl_emulation.h"
#endif

using namespace lathe;
using namespace lathe::distributed;
using lathe::test::Ranks;

namespace {

// Before any case asks whether there is a GPU.
[[maybe_unused]] const int g_four_emulated_gpus = setenv("LATHE_EMULATED_DEVICES", "4", 0);

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

Device gpu(int64_t number) { return Device(DeviceType::kCUDA, static_cast<int8_t>(number)); }

}  // namespace

// In a process of its own, as every rank: what it loads is not there for the others.
TEST_CASE("nccl: one rank on a GPU" * test::cuda_case()) {
  Ranks ranks(1, 60, [](const GroupOptions&) -> std::string {
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
  });
  CHECK(ranks.result(0) == "NCCL: ncclBroadcast: comes after an abort");
}

#ifdef LATHE_CUDA_EMULATED
namespace {

/// What one rank does, and what all are told.
void check_all(int n, double timeout, const Ranks::Body& body, const std::string& expected) {
  Ranks ranks(n, timeout, body);
  for (int rank = 0; rank < n; ++rank) {
    const std::string result = ranks.result(rank);
    INFO("rank ", rank, ": ", result);
    CHECK(result.find(expected) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("nccl: a call waits for the stream, the stream for the call, and the host for neither") {
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
        require(emulation::nccl_probe().stream != current_stream(device).native, "its own stream");
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

TEST_CASE("nccl: memory that a call uses is not handed out before the call is over") {
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

TEST_CASE("nccl: a call that fails, hangs or is reported ends the group on all ranks") {
  const auto with = [](FaultPoint& point, bool debug = false) {
    return [&point, debug](GroupOptions options) -> std::string {
      options.debug = debug;
      const Device device = gpu(options.rank);
      if (options.rank == 1) point.fail_at(3);
      std::string told;
      try {
        ProcessGroup group(options);
        while (true) {
          const Tensor t = ones({10}, {.device = device});
          group.all_reduce_(t).wait();
          t.sum().item<double>();
        }
      } catch (const DistributedError& error) {
        told = error.message();
      }
      require(emulation::nccl_probe().aborted == 1, "not aborted");
      return told;
    };
  };
  emulation::NcclProbe& probe = emulation::nccl_probe();
  const std::string call = ", all_reduce_(sum) f32[10] on a GPU (NCCL: ";
  for (const bool debug : {false, true})
    check_all(3, 60, with(probe.call_fault, debug),
              call + "ncclAllReduce: unhandled system error (a socket was closed (by a test)))");
  check_all(3, 60, with(probe.async_fault), call + "a collective: remote process exited");
  test::with_patience([&](double factor) {
    Ranks ranks(2, 2 * factor, with(probe.hang_fault));
    std::string wrong;
    for (const std::string& result : ranks.results())
      wrong += test::unless_contained(result, call + "a collective: is not over in time)");
    return wrong;
  });
}

TEST_CASE("nccl: ranks that share a GPU are named, and a rank without NCCL") {
  check_all(
      3, 60,
      [](const GroupOptions& options) -> std::string {
        const Device device = gpu(options.rank % 2);
        ProcessGroup group(options);
        group.all_reduce_(ones({2}, {.device = device})).wait();
        return "no error";
      },
      "use the same GPU, cuda:0; NCCL needs one for each rank");
  const auto by_way_of_the_host = [](const GroupOptions& options) -> std::string {
    const Device device = gpu(options.rank);
    ProcessGroup group(options);
    require(!group.queues_on(device), "one rank has no NCCL");
    const Tensor t = ones({2}, {.device = device});
    group.all_reduce_(t).wait();
    return concat(t.sum().item<double>());
  };
  check_all(
      2, 60,
      [&](const GroupOptions& options) -> std::string {
        if (options.rank == 1)
          setenv("LATHE_EMULATED_LIBRARIES", "libcudnn.so.9 libcublasLt.so.13", 1);
        return by_way_of_the_host(options);
      },
      "4");
  check_all(
      2, 60,
      [&](const GroupOptions& options) -> std::string {
        if (options.rank == 0) {  // a folder whose name makes no communicator's id
          const auto folder = std::filesystem::temp_directory_path() / std::string(200, 'x');
          std::filesystem::create_directory(folder);
          setenv("TMPDIR", folder.c_str(), 1);
        }
        return by_way_of_the_host(options);
      },
      "4");
}

TEST_CASE("nccl: a rank whose GPU has failed before it is connected ends the group") {
  check_all(
      2, 60,
      [](const GroupOptions& options) -> std::string {
        const Device device = gpu(options.rank);
        ProcessGroup group(options);
        if (options.rank == 1) {
          emulation::kernel_fault().fail_at(1);
          const Tensor lost = ones({2}, {.device = device});
          try {
            cuda::synchronize(device);
          } catch (const CudaError&) {  // and every call after it
          }
          try {
            group.queues_on(device);
          } catch (const CudaError&) {  // its own reason; then what all are told
          }
        }
        try {
          group.queues_on(device);
          group.barrier().wait();
        } catch (const DistributedError& error) {
          return error.message();
        }
        return "no error";
      },
      ") failed: cudaStreamCreateWithFlags(");
}

TEST_CASE("nccl: another GPU is refused") {
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

#endif
