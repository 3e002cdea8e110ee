// ComputeAlone: a thread that takes no help from the thread pool (thread_pool.h).
#pragma once

#include "lathe/core/config.h"

namespace lathe {

/// While it lives, its thread computes without the help of others: num_threads() is 1 here, for
/// loops as for oneDNN. For threads that serve a request each: as many of them as there are
/// processors neither wait for each other's loops nor share a processor with another's helpers.
/// Make and destroy it on one thread, the last one first.
class LATHE_API ComputeAlone {
 public:
  ComputeAlone() noexcept;
  ~ComputeAlone();
  ComputeAlone(const ComputeAlone&) = delete;
  ComputeAlone& operator=(const ComputeAlone&) = delete;

 private:
  bool before_;
};

}  // namespace lathe
