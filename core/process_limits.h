// What this process may use of the machine. A container or a batch system gives a process fewer
// processors, less memory and fewer threads than the machine has, by Linux control groups (versions
// 1 and 2). Each function takes the folder that holds /proc and /sys, so that a test can bring its
// own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lathe/core/config.h"

namespace lathe {

/// The least limits of the control groups that this process is in: its own ones and all that they
/// lie in. A field is empty where no group sets a limit, or where the limit cannot be read.
struct GroupLimits {
  std::optional<double> cpus;           // processors' worth of time: 0.5, 2
  std::optional<int64_t> memory_bytes;  // before the group reclaims memory or ends a process
  std::optional<int64_t> free_bytes;    // of these, what is unused or holds files' pages
  std::optional<int64_t> tasks;         // threads and processes
  std::string tasks_file;               // the file that says so
};

LATHE_API GroupLimits group_limits(const std::string& root = "");

/// usable_cpus() of core/thread_pool.h: processors in the affinity mask, or the groups' quota of
/// processor time, rounded up, where that is less. At least 1.
LATHE_API int usable_cpus(const std::string& root);

/// Memory in bytes; 0 where the system does not say, else at least 1.
struct UsableMemory {
  int64_t total = 0;      // physical memory, or the groups' limit where that is less
  int64_t available = 0;  // of it, what a process can get without swapping
};

LATHE_API UsableMemory usable_memory(const std::string& root = "");

/// What limits the number of threads here, for messages: "ulimit -u 4096, 100 tasks by
/// /sys/fs/cgroup/pids.max". Empty if nothing is found.
LATHE_API std::string thread_limits_text(const std::string& root = "");

}  // namespace lathe
