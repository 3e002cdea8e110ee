// Act 3 of an op: from a device to its kernel. There are two backends, known at build time.
#pragma once

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/error.h"

namespace lathe {

/// Throws NoCudaError. A CPU-only build calls it when it is asked to run `call` on a GPU.
[[noreturn]] LATHE_API void throw_no_cuda(const char* call);

}  // namespace lathe

// LATHE_DISPATCH(x.device(), relu_forward(x)) calls cpu::relu_forward(x), or cuda::relu_forward(x)
// with the device current. A program's own ops use it too, with namespaces cpu and cuda of the
// program's own. Both must be declared; in a CUDA build a missing CUDA kernel is a link
// error. A CPU build compiles the second call and discards it. There, a tensor on a GPU (from_blob
// makes one without asking the device) is a NoCudaError that names the call. (A macro, because a
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
