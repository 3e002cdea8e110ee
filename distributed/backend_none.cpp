// In a build without Gloo: says so where processes should be joined. With it: backend_gloo.cpp.
// Contract: backend.h.
#include "lathe/distributed/backend.h"

namespace lathe::distributed {

bool is_available() noexcept { return false; }

std::unique_ptr<Backend> make_backend(int, int world_size, const std::string&, int64_t,
                                      const KeyValueStore&) {
  fail<DistributedError>(here(__FILE__, __LINE__),
                         "process group: this build holds no Gloo, which ", world_size,
                         " ranks need; install libgloo-dev and build Lathe again");
}

}  // namespace lathe::distributed
