// The library as a whole for C programs. Contract: lathe_c.h.
#include "lathe/c/call.h"
#include "lathe/core/cuda.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/version.h"

using namespace lathe;

const char* lathe_version(void) { return version(); }
int32_t lathe_abi_version(void) { return LATHE_C_ABI; }
int32_t lathe_threads(void) { return num_threads(); }
int32_t lathe_gpus(void) { return cuda::device_count(); }

lathe_status lathe_set_threads(int32_t count) {
  return c::call("lathe_set_threads", [&] { set_num_threads(count); });
}

lathe_status lathe_seed(uint64_t seed) {
  return c::call("lathe_seed", [&] { manual_seed(seed); });
}
