// DeviceBackend: the collectives of one library on the memory of a GPU, as group_state.cpp calls
// them. device_backend_nccl.cpp is the one there is; where NCCL is missing device_backend_none.cpp
// takes its place. That for host memory: backend.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "lathe/core/dtype.h"
#include "lathe/core/stream.h"
#include "lathe/distributed/process_group.h"

namespace lathe::distributed {

/// What the library says of a call that failed.
class DeviceBackendError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One rank's part of a communicator. The collectives queue work on stream() and return; one thread
/// calls them. All functions but abort() throw DeviceBackendError, or another std::exception, if
/// the call fails, if it takes longer than the backend's limit, or after an abort.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  /// Meets all other ranks. Waits. Before any other call.
  virtual void connect() = 0;
  virtual Device device() const = 0;
  /// A stream of its own.
  virtual Stream stream() const = 0;

  virtual void all_reduce(void* data, size_t count, DType dtype, Reduce op) = 0;
  virtual void broadcast(void* data, size_t bytes, int root) = 0;
  virtual void all_gather(void* out, const void* in, size_t bytes) = 0;
  /// `count`: of out.
  virtual void reduce_scatter(void* out, const void* in, size_t count, DType dtype, Reduce op) = 0;

  /// Waits until the event, recorded on stream(), is reached; not for long once `somebody_left`: a
  /// rank leaves when its calls are over. From any thread.
  virtual void watch(const Event& event, const std::function<bool()>& somebody_left) = 0;
  /// Makes what is queued end, and the call that runs now and all later ones throw. From any
  /// thread, any number of times. What the calls have written is undefined. Does not wait: the
  /// library may need as long as there are CUDA graphs with its calls.
  virtual void abort() noexcept = 0;
  /// Leaves in good order when all calls are over and all CUDA graphs with such calls are gone, and
  /// waits for that, but not for long. NCCL does not promise to wait until the others leave too;
  /// the emulated one does.
  virtual void leave() noexcept = 0;
};

/// Why this process cannot have a DeviceBackend for the GPU; "" if it can.
std::string device_backend_problem(Device device);
/// What no other GPU is called.
std::string identity_of(Device device);
/// What the ranks of one communicator have in common, as text: rank 0 makes it.
std::string make_communicator_id();
/// `limit_ms` is that of each call.
/// throws: CudaError; NoCudaError; DistributedError for an id that make_communicator_id() did not
/// make.
std::unique_ptr<DeviceBackend> make_device_backend(int rank, int world_size, Device device,
                                                   int64_t limit_ms, const std::string& id);

}  // namespace lathe::distributed
