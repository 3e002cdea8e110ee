// What calls on GPUs do where NCCL or a GPU fails, or a rank has no NCCL: over the emulated ones, which
// can be made to. The rest: nccl_test.cpp.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "gpu_ranks.h"
#include "lathe/core/cuda.h"
#include "lathe/core/format.h"
#include "lathe/distributed/process_group.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/tests/emulation/device_failure.h"
#include "lathe/tests/emulation/nccl_emulation.h"
#include "patience.h"

using namespace lathe;
using namespace lathe::distributed;
using namespace lathe::test;

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

TEST_CASE("nccl: where a rank has no NCCL, tensors travel through host memory") {
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
