// GroupOptions: who is in a process group and how they find each other. group_options.cpp reads
// the variables of torchrun, Open MPI and Slurm.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "lathe/core/config.h"

namespace lathe::distributed {

struct GroupOptions {
  int64_t rank = 0;              // this process, from 0
  int64_t world_size = 1;        // how many processes there are
  int64_t local_rank = 0;        // this process among those on this machine: the number of its GPU
  int64_t local_world_size = 1;  // how many processes are on this machine
  // Where the ranks meet: "tcp://HOST:PORT", where rank 0 listens, or "file:///PATH", which all
  // ranks see and in which rank 0 writes its address.
  std::string rendezvous = "tcp://127.0.0.1:29500";
  // The local address that other ranks connect to. Empty: that of the way to rank 0. So where ranks
  // meet on the loopback interface, nothing listens on any other.
  std::string address = {};
  // Only processes with the same token may join. It is not sent: a join proves that it is known.
  std::string token = {};
  double timeout_seconds = 600;  // for joining, for each call, and for a rank that does not answer
  // true: before each call the ranks compare operation, dtype and shape. Calls that a cuda::Graph
  // records are not compared.
  bool debug = false;
};

/// The options in the variables that a launcher set; absent if there are none. The first of these
/// that is set decides rank, world size, local rank and local world size:
///   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE               lathe launch, torchrun
///   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE        mpirun of Open MPI
///   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID            srun
/// Where they meet: LATHE_RENDEZVOUS, or else MASTER_ADDR and MASTER_PORT (under torchrun the next
/// port, since its agent listens on that one), or else under srun the first host of the step and a
/// port made of the job's number, or else, if all ranks are on this machine, the loopback interface
/// and such a port. The token: LATHE_JOB_TOKEN, or else the job's number. LATHE_DISTRIBUTED_ADDRESS
/// and LATHE_DISTRIBUTED_TIMEOUT (seconds) set `address` and `timeout_seconds`,
/// LATHE_DISTRIBUTED_DEBUG=1 sets `debug`.
/// throws: ValueError naming the variable that is missing or wrong; also if only one of RANK and
/// WORLD_SIZE is set, unless it is the one of a single process.
LATHE_API std::optional<GroupOptions> options_from_environment();

/// The same with the variables that `get` finds.
LATHE_API std::optional<GroupOptions> options_from_variables(
    const std::function<std::optional<std::string>(const std::string& name)>& get);

/// throws: ValueError naming the option that is out of range, with its value.
LATHE_API void check(const GroupOptions& options);

}  // namespace lathe::distributed
