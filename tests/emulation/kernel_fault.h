// For tests of faults that are planted in kernels.
#pragma once

#include <string>

#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/gpu/launch.h"

namespace lathe::test {

/// Memory of the device, exactly so many bytes.
class Taken {
 public:
  explicit Taken(size_t bytes) { LATHE_CUDA_CHECK(cudaMalloc(&memory_, bytes)); }
  ~Taken() { give_back(); }
  void give_back() {
    cudaFree(memory_);
    memory_ = nullptr;
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_ = nullptr;
};

/// What the kernel says when it has run; "" if nothing is wrong.
template <class... Parameters, class... Arguments>
std::string fault_of(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                     const Arguments&... arguments) {
  launch(kernel, grid, block, 0, Stream{nullptr, Device(DeviceType::kCUDA)}, arguments...);
  try {
    LATHE_CUDA_CHECK(cudaDeviceSynchronize());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

}  // namespace lathe::test
