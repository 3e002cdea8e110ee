// In a build without NCCL: tensors on GPUs travel through host memory. With it:
// device_backend_nccl.cpp. Contract: device_backend.h.
#include "lathe/distributed/device_backend.h"

namespace lathe::distributed {

std::string device_backend_problem(Device) { return "its build holds no NCCL"; }
std::string identity_of(Device) { return ""; }
std::string make_communicator_id() { return ""; }

std::unique_ptr<DeviceBackend> make_device_backend(int, int, Device, int64_t, const std::string&) {
  LATHE_FAIL(NoCudaError, "process group: ", device_backend_problem({}));
}

}  // namespace lathe::distributed
