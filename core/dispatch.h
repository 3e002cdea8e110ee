// The third of the four acts of an op (docs/tour/03-an-op.md): it calls the kernel for the device.
// There are two backends, known at build time.
#pragma once

#include "lathe/core/config.h"
#include "lathe/core/device.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/error.h"

namespace lathe {

/// Throws NoCudaError. A CPU-only build calls it when it is asked to run `call` on a GPU.
[[noreturn]] LATHE_API void throw_no_cuda(const char* call);

}  // namespace lathe

// LATHE_DISPATCH(x.device(), relu_forward(x)) calls cpu::relu_forward(x) if the device is a CPU. If
// the device is a GPU, it makes the device current and calls cuda::relu_forward(x). A program can
// use it for its own ops, with its own namespaces cpu and cuda. Both functions must be declared. In
// a CUDA build a missing CUDA function is a link error. In a CPU build a tensor on a GPU (from_blob
// can make one) gives a NoCudaError that names the call. (A macro, because a namespace cannot be an
// argument of a function.)
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
