// cuBLASLt: its errors, its handle and owners of its descriptors. For files that are compiled only
// where cuBLAS is.
#pragma once

#include <string_view>
#include <utility>

#include "lathe/core/device.h"
#include "lathe/core/gpu/cublas_functions.h"

namespace lathe::cublas {

/// Throws unless `status` is success: "cublas: multiply: CUBLAS_STATUS_NOT_SUPPORTED". The CUDA
/// runtime's last error is then cleared, so that it is not reported a second time.
/// throws: OutOfMemoryError where cuBLAS found no memory, else CudaError.
void check(cublasStatus_t status, std::string_view doing);

/// The handle of `device`, made by the first call and used by all threads, without a lock: cuBLASLt
/// takes stream and workspace with each call, and a handle holds neither.   throws: CudaError;
/// NoCudaError, DeviceError if there is no such device.
cublasLtHandle_t handle(Device device);

/// Owns a descriptor, which the function at kDestroy of the table destroys.
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
  /// Where a create function writes, once.
  T* address() { return &object_; }

 private:
  T object_ = nullptr;
};

using MatmulDescriptor = Owned<cublasLtMatmulDesc_t, &Functions::cublasLtMatmulDescDestroy>;
using MatrixLayout = Owned<cublasLtMatrixLayout_t, &Functions::cublasLtMatrixLayoutDestroy>;
using MatmulPreference =
    Owned<cublasLtMatmulPreference_t, &Functions::cublasLtMatmulPreferenceDestroy>;

}  // namespace lathe::cublas
