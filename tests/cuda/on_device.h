// How kernel tests get their tensors onto the device that runs the kernels. In the emulation the
// device's memory is the host's.
#pragma once

#include "../ops/compare.h"

namespace lathe::test {

/// `t` where kernels of namespace cuda can read and write it, strides kept.
inline Tensor on_device(const Tensor& t) { return t; }

/// `t` with its values readable by the host, all kernels on it done.
inline Tensor on_host(const Tensor& t) { return t; }

}  // namespace lathe::test
