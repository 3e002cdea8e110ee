// The library's own threads, and parallel_for, the one way to use them.
//
// - The chunks depend on n and grain only, never on the number of threads. So a kernel that gives
//   each chunk its own result (a partial sum, a block of random numbers) computes the same bits
//   with 1, 2 or 64 threads.
// - A loop runs on the calling thread and on `num_threads() - 1` workers. The workers start with
//   the first loop that needs them. After a loop they spin for a few microseconds, in case another
//   follows, and then sleep without using the processor. Where loops follow each other within 0.1
//   ms they spin up to 0.1 ms, and offer their processor to other threads meanwhile.
// - The workers serve one loop at a time. A loop inside a loop runs only on its calling thread, and
//   so does a loop that another thread starts meanwhile.
// - After fork() the child has a pool of its own, which starts workers when it first needs them.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"
#include "lathe/core/function_ref.h"

namespace lathe {

/// How many processors this process may use, by its affinity mask and control groups
/// (core/process_limits.h).
LATHE_API int usable_cpus() noexcept;

/// The number of threads of a parallel loop, the caller included. Initially this is the first
/// number in the variable OMP_NUM_THREADS, if that is from 1 to 1024, else usable_cpus(). While a
/// ComputeAlone (core/compute_alone.h) lives on the calling thread, num_threads() is 1.
LATHE_API int num_threads() noexcept;

/// Sets num_threads(). Waits for a loop that another thread is running.
/// throws: ValueError for count < 1, StateError inside a parallel_for body.
LATHE_API void set_num_threads(int count);

namespace thread_pool_detail {
LATHE_API void run(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t)> body);
}

/// Calls body(begin, end) for the chunks [0, grain), [grain, 2 * grain), … of [0, n), in any order
/// and in parallel. The last chunk may be shorter. Choose `grain` as the least work worth handing
/// to another thread, about 10 us. If n <= grain, this is one plain call.
/// throws: ValueError for grain < 1; what bodies throw: the error of the first chunk that throws.
/// Chunks after that one may not have run.
template <class Body>
void parallel_for(int64_t n, int64_t grain, Body&& body) {
  if (n <= grain) {
    if (n > 0) body(int64_t{0}, n);
  } else {
    thread_pool_detail::run(n, grain, body);
  }
}

}  // namespace lathe
