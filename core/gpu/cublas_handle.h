// cuBLASLt: its errors, its handle and owners of its descriptors. For files that are compiled only
// in builds with cuBLAS.
#pragma once

#include <string_view>
#include <utility>

#include "lathe/core/device.h"
#include "lathe/core/gpu/cublas_functions.h"

namespace lathe::cublas {

/// Throws unless `status` is success: "cublas: multiply: CUBLAS_STATUS_NOT_SUPPORTED". It also
/// clears the CUDA runtime's last error, so that this is not reported a second time.
/// throws: OutOfMemoryError if cuBLAS found no memory, else CudaError.
void check(cublasStatus_t status, std::string_view doing);

/// The handle of `device`, made by the first call. All threads use it without a lock: cuBLASLt
/// takes stream and workspace with each call, and a handle holds neither.
/// throws: CudaError; NoCudaError, DeviceError if there is no such device.
cublasLtHandle_t handle(Device device);

/// Owns a descriptor and destroys it with the function kDestroy of the table.
template <class T, auto kDestroy>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (object_ != nullptr) (functions().*kDestroy)(object_);
  }
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }

  T get() const { return object_; }
  /// Where a create function writes the descriptor, once.
  T* address() { return &object_; }

 private:
  T object_ = nullptr;
};

using MatmulDescriptor = Owned<cublasLtMatmulDesc_t, &Functions::cublasLtMatmulDescDestroy>;
using MatrixLayout = Owned<cublasLtMatrixLayout_t, &Functions::cublasLtMatrixLayoutDestroy>;
using MatmulPreference =
    Owned<cublasLtMatmulPreference_t, &Functions::cublasLtMatmulPreferenceDestroy>;

}  // namespace lathe::cublas
