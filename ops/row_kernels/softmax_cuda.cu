// CUDA kernels of softmax and log_softmax, with the arithmetic of softmax_math.h and the sums of
// exponentials of reduce_device.cuh. Contracts: softmax.h.
#include "lathe/core/visit.h"
#include "lathe/ops/reduce_kernels/held_line.cuh"
#include "lathe/ops/reduce_kernels/line_kernels.cuh"
#include "lathe/ops/reduce_kernels/reduce_device.cuh"
#include "lathe/ops/row_kernels/softmax_math.h"
#include "lathe/ops/softmax.h"

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

// y of lines that fit the registers: the largest number, the exponentials and their sum, y. Memory
// bound, 2 * sizeof(T) bytes and one exponential per element. Meant to reach 85 % of the copy
// bandwidth in f32, 80 % in 16 bits.
template <class T, class A = ComputeType<T>>
__global__ void __launch_bounds__(kReduceBlock, 3)
    softmax_held_kernel(Forward<T> pass, HeldLines lines) {
  const HeldLine<T> line(lines);
  A v[kHeld];
  line.load(v, pass.x, reduce_math::kLowest<A>);
  const A largest =
      line.template reduce<SimpleMath<reduce_math::Max<A>>>([&](int i) { return v[i]; });
  const A sum = line.template reduce<SimpleMath<reduce_math::Sum<A>>>([&](int i) {
    const A scaled = std::exp(v[i] - largest);
    if (!pass.log) v[i] = scaled;
    return scaled;
  });
  const auto result = pass.settle({largest, sum});
  line.store(pass.y, [&](int k) {
    return pass.log ? math::log_softmax(v[k], result.largest, result.sum) : v[k] * result.sum;
  });
}

// dx of such lines, likewise: 3 * sizeof(T) bytes per element.
template <class T, class A = ComputeType<T>>
__global__ void __launch_bounds__(kReduceBlock, 2)
    softmax_grad_held_kernel(Backward<T> pass, HeldLines lines) {
  const HeldLine<T> line(lines);
  A y[kHeld], dy[kHeld];
  line.load(y, pass.y, A(0));
  line.load(dy, pass.dy, A(0));
  const A sum = line.template reduce<SimpleMath<reduce_math::Sum<A>>>(
      [&](int k) { return pass.log ? dy[k] : dy[k] * y[k]; });
  line.store(pass.dx, [&](int k) {
    return pass.log ? math::log_softmax_grad(std::exp(y[k]), dy[k], sum)
                    : math::softmax_grad(y[k], dy[k], sum);
  });
}

// One pass over a line to reduce it and one to write it; threads as LineGrid says. Memory bound,
// with (inputs + 1) * sizeof(T) bytes per element: the second pass finds the line in the cache (a
// block's lines are some KiB; beyond about 100,000 numbers it reads memory again). Meant to reach
// 85 % of the copy bandwidth in f32; less in 16 bits, where two exponentials per element bound it.
template <class Pass>
__global__ void __launch_bounds__(kReduceBlock, 2) softmax_kernel(Pass pass, LineGrid lines) {
  const LineThread thread(lines);
  const auto result = pass.settle(thread.template reduce<typename Pass::Math>(pass));
  thread.each([&](int64_t, int64_t at) { pass.write(at, result); });
}

/// `held`: the kernel for lines that fit the registers.
template <class Pass>
void run(const Pass& pass, void (*held)(Pass, HeldLines), bool holds, const Tensor& out, int64_t n,
         int64_t inner) {
  const Stream stream = current_stream(out.device());
  const int64_t count = out.numel() / n;
  if (holds) {
    const HeldLines lines(count, n);
    launch(held, lines.grid(), dim3(lines.block()), 0, stream, pass, lines);
  } else {
    const LineGrid lines(count, n, inner);
    launch(softmax_kernel<Pass>, lines.grid(), dim3(kReduceBlock), 0, stream, pass, lines);
  }
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void softmax_forward(bool log, const Tensor& y, const Tensor& x, int64_t n, int64_t inner) {
  if (x.numel() == 0) return;
  visit_float(x.dtype(), "softmax", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Forward<T> pass{log, y.data<T>(), x.data<T>()};
    if constexpr (kHolds<T>) {
      const bool holds = inner == 1 && can_hold(HeldLines(1, n), pass.y, pass.x);
      return run(pass, softmax_held_kernel<T>, holds, y, n, inner);
    }
    run<Forward<T>>(pass, nullptr, false, y, n, inner);
  });
}

void softmax_backward(bool log, const Tensor& dx, const Tensor& y, const Tensor& dy, int64_t n,
                      int64_t inner) {
  if (y.numel() == 0) return;
  visit_float(y.dtype(), "softmax", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Backward<T> pass{log, dx.data<T>(), y.data<T>(), dy.data<T>()};
    if constexpr (kHolds<T>) {
      const bool holds = inner == 1 && can_hold(HeldLines(1, n), pass.dx, pass.y, pass.dy);
      return run(pass, softmax_grad_held_kernel<T>, holds, dx, n, inner);
    }
    run<Backward<T>>(pass, nullptr, false, dx, n, inner);
  });
}

}  // namespace lathe::cuda
