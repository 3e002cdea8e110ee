// A number of threads for one test.
#pragma once

#include "lathe/core/thread_pool.h"

namespace lathe::test {

/// { ThreadsScope one(1); … }: parallel loops run on this many threads until the scope ends.
class ThreadsScope {
 public:
  explicit ThreadsScope(int threads) : before_(num_threads()) { set_num_threads(threads); }
  ~ThreadsScope() { set_num_threads(before_); }
  ThreadsScope(const ThreadsScope&) = delete;
  ThreadsScope& operator=(const ThreadsScope&) = delete;

 private:
  const int before_;
};

}  // namespace lathe::test
