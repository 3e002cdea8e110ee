// A block reverses its elements through shared memory. With an argument the barrier between write
// and read is there; without one it is missing, which only ThreadSanitizer can see: the result may
// be right all the same.
#include <cstdio>

#include "run_now.h"

namespace {

constexpr int kThreads = 64;

__global__ void reverse_kernel(int* out, const int* x, bool with_barrier) {
  LATHE_SHARED(int[kThreads], room);
  const unsigned t = threadIdx.x;
  room[t] = x[t];
  if (with_barrier) __syncthreads();
  out[t] = room[kThreads - 1 - t];
}

}  // namespace

int main(int count, char**) {
  int x[kThreads], out[kThreads];
  for (int i = 0; i < kThreads; ++i) x[i] = i;
  lathe::test::run_now(reverse_kernel, dim3(1), dim3(kThreads), 0, out, x, count > 1);
  std::printf("%d\n", out[0]);
}
