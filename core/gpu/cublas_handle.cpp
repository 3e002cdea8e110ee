// cuBLASLt's errors as exceptions, and one handle per device.
#include "lathe/core/gpu/cublas_handle.h"

#include <array>
#include <atomic>
#include <mutex>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/error.h"
#include "lathe/core/gpu/launch.h"

namespace lathe::cublas {

void check(cublasStatus_t status, std::string_view doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaGetLastError();
  const std::string text =
      concat("cublas: ", doing, ": ", functions().cublasLtGetStatusString(status));
  LATHE_CHECK(OutOfMemoryError, status != CUBLAS_STATUS_ALLOC_FAILED, text);
  LATHE_FAIL(CudaError, text);
}

// Handles are never destroyed: at the end of the process the driver may be gone before them.
cublasLtHandle_t handle(Device device) {
  static std::array<std::atomic<cublasLtHandle_t>, cuda::kMaxDevices> handles{};
  std::atomic<cublasLtHandle_t>& made = handles.at(static_cast<size_t>(device.index));
  if (const cublasLtHandle_t known = made.load(std::memory_order_acquire)) return known;
  static std::mutex mutex;
  const cuda::DeviceScope on(device);
  const std::lock_guard lock(mutex);
  cublasLtHandle_t handle = made.load(std::memory_order_relaxed);
  if (handle == nullptr) {
    check(functions().cublasLtCreate(&handle), "create a handle");
    made.store(handle, std::memory_order_release);
  }
  return handle;
}

}  // namespace lathe::cublas
