// Act 3 of an op: from a device to its kernel. Two backends, known at build time.
#pragma once

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/error.h"

namespace lathe {

/// Where a CPU-only build ends up when it is asked to run on a GPU.
[[noreturn]] LATHE_API void throw_no_cuda(const char* call);

}  // namespace lathe

// LATHE_DISPATCH(x.device(), relu_forward(x)) calls cpu::relu_forward(x) or cuda::relu_forward(x)
// with its device current. Both must be declared; a missing CUDA kernel is a link error in a CUDA
// build. In a CPU build the second call is compiled but discarded, and a tensor on a GPU (from_blob
// makes one without asking the device) is refused: NoCudaError names the call. (A macro, because a
// namespace cannot be an argument of a function.)
#define LATHE_DISPATCH(device, ...)                                 \
  [&] {                                                             \
    if ((device).is_cuda()) {                                       \
      if constexpr (::lathe::kHasCuda) {                            \
        const ::lathe::cuda::DeviceScope on_(device, #__VA_ARGS__); \
        return cuda::__VA_ARGS__;                                   \
      } else {                                                      \
        ::lathe::throw_no_cuda(#__VA_ARGS__);                       \
      }                                                             \
    }                                                               \
    return cpu::__VA_ARGS__;                                        \
  }()
