// The CUDA kernels of swiglu. Contract: swiglu.h.
//
// A kernel is started by lathe::launch(kernel, grid, block, shared bytes, stream, arguments…). The
// usual kernel<<<…>>>(…) does as well, but launch() also throws if the start fails, and it compiles
// without nvcc against an emulated GPU, on which Lathe's own tests run this file. The stream must
// be the current one: tensors hand memory from one kernel to the next in its order.
#include <lathe/core/gpu/launch.h>

#include "swiglu.h"

using lathe::Tensor;

namespace {

// One thread per element, in a loop that strides over the grid, so that any n is correct.
template <class T>
__global__ void swiglu_kernel(T* __restrict__ y, const T* __restrict__ gate,
                              const T* __restrict__ value, int64_t n) {
  using C = lathe::ComputeType<T>;
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += step)
    y[i] = T(swiglu_of(C(gate[i]), C(value[i])));
}

// Both gradients in one pass: three numbers read and two written, where ops would make a dozen
// passes.
template <class T>
__global__ void swiglu_grad_kernel(T* __restrict__ d_gate, T* __restrict__ d_value,
                                   const T* __restrict__ dy, const T* __restrict__ gate,
                                   const T* __restrict__ value, int64_t n) {
  using C = lathe::ComputeType<T>;
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += step) {
    const auto slopes = swiglu_slopes(C(gate[i]), C(value[i]));
    d_gate[i] = T(C(dy[i]) * slopes.gate);
    d_value[i] = T(C(dy[i]) * slopes.value);
  }
}

}  // namespace

Tensor cuda::swiglu(const Tensor& gate, const Tensor& value) {
  Tensor y = lathe::empty_like(gate);
  lathe::visit_float(gate.dtype(), "swiglu", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto [grid, block] = lathe::launch_1d(gate.numel());
    lathe::launch(swiglu_kernel<T>, grid, block, 0, lathe::current_stream(), y.data<T>(),
                  gate.data<T>(), value.data<T>(), gate.numel());
  });
  return y;
}

std::pair<Tensor, Tensor> cuda::swiglu_grad(const Tensor& dy, const Tensor& gate,
                                            const Tensor& value) {
  Tensor d_gate = lathe::empty_like(gate), d_value = lathe::empty_like(value);
  lathe::visit_float(gate.dtype(), "swiglu", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto [grid, block] = lathe::launch_1d(gate.numel());
    lathe::launch(swiglu_grad_kernel<T>, grid, block, 0, lathe::current_stream(), d_gate.data<T>(),
                  d_value.data<T>(), dy.data<T>(), gate.data<T>(), value.data<T>(), gate.numel());
  });
  return {d_gate, d_value};
}
