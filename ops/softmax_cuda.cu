// CUDA kernels of softmax and log_softmax, with the arithmetic of softmax_math.h and the sums of
// exponentials of reduce_device.cuh. Contracts: softmax.h.
#include "lathe/core/visit.h"
#include "lathe/ops/reduce_kernels/line_kernels.cuh"
#include "lathe/ops/reduce_kernels/reduce_device.cuh"
#include "lathe/ops/softmax.h"
#include "lathe/ops/softmax_math.h"

namespace lathe::cuda {

namespace {

/// A Pass reduces its numbers (pass[i], at offset i) over each line, then writes each element from
/// its numbers and the finished result.
template <class T>
struct Forward {
  using A = ComputeType<T>;
  using Math = LogSumExpMath<A>;
  using Result = reduce_math::ScaledSum<A>;
  bool log;
  T* y;
  const T* x;

  __device__ Forward operator+(int64_t offset) const { return {log, y + offset, x + offset}; }
  __device__ A operator[](int64_t i) const { return static_cast<A>(x[i]); }
  __device__ Result settle(Result line) const {
    const A sum = line.sum + (line.largest - line.largest);  // NaN where the largest is infinite
    line.sum = log ? std::log(sum) : A(1) / sum;
    return line;
  }
  __device__ void write(int64_t i, const Result& line) const {
    const A value = (*this)[i];
    y[i] = static_cast<T>(log ? math::log_softmax(value, line.largest, line.sum)
                              : std::exp(value - line.largest) * line.sum);
  }
};

template <class T>
struct Backward {
  using A = ComputeType<T>;
  using Math = SimpleMath<reduce_math::Sum<A>>;
  using Result = A;
  bool log;
  T* dx;
  const T *y, *dy;

  __device__ Backward operator+(int64_t offset) const {
    return {log, dx + offset, y + offset, dy + offset};
  }
  __device__ A operator[](int64_t i) const {
    const A d = static_cast<A>(dy[i]);
    return log ? d : d * static_cast<A>(y[i]);
  }
  __device__ Result settle(Result sum) const { return sum; }
  __device__ void write(int64_t i, Result sum) const {
    const A value = static_cast<A>(y[i]), d = static_cast<A>(dy[i]);
    dx[i] = static_cast<T>(log ? math::log_softmax_grad(std::exp(value), d, sum)
                               : math::softmax_grad(value, d, sum));
  }
};

// One pass over a line to reduce it and one to write it; threads as Lines says. Memory bound, with
// (inputs + 1) * sizeof(T) bytes per element: the second pass finds the line in the cache (a
// block's lines are some KiB; beyond about 100,000 numbers it reads memory again). Meant to reach
// 85 % of the copy bandwidth in f32; less in 16 bits, where two exponentials per element bound it.
template <class Pass>
__global__ void __launch_bounds__(kReduceBlock) softmax_kernel(Pass pass, Lines lines) {
  const LineThread thread(lines);
  const auto result = pass.settle(thread.template reduce<typename Pass::Math>(pass));
  thread.each([&](int64_t, int64_t at) { pass.write(at, result); });
}

template <class Pass>
void run(const Pass& pass, const Tensor& out, int64_t n, int64_t inner) {
  const Lines lines(out.numel() / n, n, inner);
  launch(softmax_kernel<Pass>, lines.grid(), dim3(kReduceBlock), 0, current_stream(out.device()),
         pass, lines);
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void softmax_forward(bool log, const Tensor& y, const Tensor& x, int64_t n, int64_t inner) {
  if (x.numel() == 0) return;
  visit_float(x.dtype(), "softmax", [&](auto tag) {
    using T = typename decltype(tag)::type;
    run(Forward<T>{log, y.data<T>(), x.data<T>()}, y, n, inner);
  });
}

void softmax_backward(bool log, const Tensor& dx, const Tensor& y, const Tensor& dy, int64_t n,
                      int64_t inner) {
  if (y.numel() == 0) return;
  visit_float(y.dtype(), "softmax", [&](auto tag) {
    using T = typename decltype(tag)::type;
    run(Backward<T>{log, dx.data<T>(), y.data<T>(), dy.data<T>()}, dx, n, inner);
  });
}

}  // namespace lathe::cuda
