// Ranks: several processes that each run the same function as one rank of a world, for tests.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "lathe/core/device.h"
#include "lathe/distributed/group_options.h"

namespace lathe::test {

/// Where a rank's tensors are: on the GPU with its number if LATHE_TEST_DEVICE is "cuda", which runs
/// the cases again over NCCL; otherwise, and outside a rank, on the CPU.
Device device();
/// Whether this is such a run.
bool on_gpus();
/// " on a GPU" in such a run: how the texts of calls end.
inline const char* where() { return on_gpus() ? " on a GPU" : ""; }

/// Those of some numbers of ranks that are tried here: all, but two ranks only where each has a GPU
/// under AddressSanitizer, which takes a minute for some cases with four.
std::vector<int> worlds(std::vector<int> all, bool have_gpus = on_gpus());

/// Starts `n` children of this process. Each calls body(options) with its rank; what that returns,
/// or "error: " and the message of what it throws, is its result. They meet through a file.
/// CUDA does not work in a child of a process that has asked for GPUs. So with `uses_gpus`, where
/// these are real, a child begins the program anew, with this case alone. There the Ranks before
/// this one start nothing and have empty results.
class Ranks {
 public:
  using Body = std::function<std::string(distributed::GroupOptions options)>;
  Ranks(int n, double timeout_seconds, const Body& body, bool uses_gpus = on_gpus());
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  void signal(int rank, int number) const;
  /// Waits for the result of one rank, for two minutes at most (four with AddressSanitizer);
  /// "killed by signal 9" if it ended without.
  std::string result(int rank);
  /// The results of all.
  std::vector<std::string> results();

 private:
  struct Child {
    pid_t pid = 0;
    int pipe = -1;
    bool has_result = false;
    std::string result = {};
  };
  std::string folder_;
  std::vector<Child> children_;
};

}  // namespace lathe::test
