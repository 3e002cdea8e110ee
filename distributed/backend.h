// Backend: the collectives of one library, as process_group.cpp calls them: one at a time, from one
// thread, on contiguous host memory. backend_gloo.cpp is the one there is; where Gloo is missing
// backend_none.cpp takes its place.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "lathe/core/dtype.h"
#include "lathe/distributed/process_group.h"

namespace lathe::distributed {

/// The values that ranks leave for each other while they join.
struct KeyValueStore {
  std::function<void(const std::string& key, const std::string& value)> set;
  std::function<std::string(const std::string& key)> get;  // waits for the value
};

/// How many bytes the elements of t take.
inline size_t bytes_of(const Tensor& t) {
  return static_cast<size_t>(t.numel()) * size_of(t.dtype());
}

class Backend {
 public:
  virtual ~Backend() = default;
  /// All throw std::exception if the call fails or takes longer than the backend's limit.
  /// kAverage: the sum, in `dtype`, divided by the number of ranks.
  virtual void all_reduce(void* data, size_t count, DType dtype, Reduce op) = 0;
  virtual void broadcast(void* data, size_t bytes, int root) = 0;
  virtual void all_gather(void* out, const void* in, size_t bytes) = 0;
  virtual void barrier() = 0;
  /// Makes the call that runs now, and all later ones, throw. From any thread, any number of times.
  virtual void abort() noexcept = 0;
};

/// Connects all ranks. `address` is the local one to listen on, `limit_ms` that of each call.
/// throws: DistributedError.
std::unique_ptr<Backend> make_backend(int rank, int world_size, const std::string& address,
                                      int64_t limit_ms, const KeyValueStore& store);

}  // namespace lathe::distributed
