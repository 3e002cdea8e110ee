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
  int64_t local_rank = 0;        // number of this process on its machine, and of its GPU
  int64_t local_world_size = 1;  // how many processes are on this machine
  // Where the ranks meet: "tcp://HOST:PORT", on which rank 0 listens, or "file:///PATH" for a file
  // that all ranks can read and to which rank 0 writes its address.
  std::string rendezvous = "tcp://127.0.0.1:29500";
  // The local address to which other ranks connect. Empty: the local address of the connection to
  // rank 0. So ranks that meet on the loopback interface listen only there.
  std::string address = {};
  // Only processes with the same token may join. The token is not sent; a join proves knowledge of
  // it.
  std::string token = {};
  double timeout_seconds = 600;  // for joining, for each call, and for a rank that does not answer
  // true: before each call the ranks compare operation, dtype and shape, except for calls captured
  // into a cuda::Graph.
  bool debug = false;
};

/// Reads the options from a launcher's environment variables.   → empty without such variables
/// The first row that is set decides rank, world size, local rank and local world size:
///   RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE               lathe launch, torchrun
///   OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE        mpirun of Open MPI
///   SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID            srun
/// The first of these that exists decides where the ranks meet:
///   - LATHE_RENDEZVOUS
///   - MASTER_ADDR and MASTER_PORT; under torchrun port MASTER_PORT + 1, because its agent uses
///     MASTER_PORT
///   - under srun: the first host of the step and a port computed from the job's number
///   - if all ranks are on this machine: the loopback interface and a port computed from the job's
///     number
/// LATHE_JOB_TOKEN, or else the job's number, is the token. LATHE_DISTRIBUTED_ADDRESS sets
/// `address`, LATHE_DISTRIBUTED_TIMEOUT (seconds) `timeout_seconds`, LATHE_DISTRIBUTED_DEBUG=1
/// `debug`.
/// throws: ValueError naming the variable that is missing or wrong; also if only one of RANK and
/// WORLD_SIZE is set, unless it is RANK=0 or WORLD_SIZE=1.
LATHE_API std::optional<GroupOptions> options_from_environment();

/// Like options_from_environment(), with the variables that `get` returns.
LATHE_API std::optional<GroupOptions> options_from_variables(
    const std::function<std::optional<std::string>(const std::string& name)>& get);

/// Checks the options.
/// throws: ValueError naming the option that is out of range, with its value.
LATHE_API void check(const GroupOptions& options);

}  // namespace lathe::distributed
