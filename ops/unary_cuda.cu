// CUDA kernels of ops/unary.h. The arithmetic is that of unary_math.h, which the CPU loop uses too.
#include "lathe/core/launch.h"
#include "lathe/core/visit.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/unary_math.h"

namespace lathe::cuda {

namespace {

/// Row-major position → element offset, for tensors that are not dense.
struct StridedIndex {
  int ndim = 0;
  int64_t size[kMaxDims] = {};
  int64_t out_stride[kMaxDims] = {};
  int64_t x_stride[kMaxDims] = {};
};

StridedIndex index_of(const Tensor& out, const Tensor& x) {
  StridedIndex index;
  index.ndim = out.ndim();
  for (int d = 0; d < out.ndim(); ++d) {
    index.size[d] = out.shape()[d];
    index.out_stride[d] = out.strides()[d];
    index.x_stride[d] = x.strides()[d];
  }
  return index;
}

// out = f(x). One thread per element in a grid-stride loop, so any n is correct.
// Memory bound: sizeof(T) + sizeof(Out) bytes per element; meant to reach 90 % of the copy
// bandwidth, because neighbouring threads touch neighbouring elements and nothing is read twice.
template <class Out, class T, class F>
__global__ void unary_dense_kernel(Out* __restrict__ out, const T* __restrict__ x, F f, int64_t n) {
  using C = ComputeType<T>;
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += step) {
    out[i] = Out(f(C(x[i])));
  }
}

// The same for any strides; the index arithmetic, not memory, may bound it.
template <class Out, class T, class F>
__global__ void unary_strided_kernel(Out* out, const T* x, F f, StridedIndex index, int64_t n) {
  using C = ComputeType<T>;
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < n; i += step) {
    int64_t rest = i, to = 0, from = 0;
    for (int d = index.ndim - 1; d >= 0; --d) {
      const int64_t at = rest % index.size[d];
      rest /= index.size[d];
      to += at * index.out_stride[d];
      from += at * index.x_stride[d];
    }
    out[to] = Out(f(C(x[from])));
  }
}

template <class Out, class T, class F>
void run(const Tensor& out, const Tensor& x, F f) {
  const int64_t n = x.numel();
  if (n == 0) return;
  const auto [grid, block] = launch_1d(n);
  if (out.strides() == x.strides() && (x.is_contiguous() || x.is_contiguous(kChannelsLast))) {
    launch(unary_dense_kernel<Out, T, F>, grid, block, 0, current_stream(x.device()),
           out.data<Out>(), x.data<T>(), f, n);
  } else {
    launch(unary_strided_kernel<Out, T, F>, grid, block, 0, current_stream(x.device()),
           out.data<Out>(), x.data<T>(), f, index_of(out, x), n);
  }
  LATHE_CUDA_CHECK(cudaGetLastError());
}

template <class F>
void number_op(const char* name, const Tensor& out, const Tensor& x, F f) {
  visit_number(x.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    run<T, T>(out, x, f);
  });
}

/// `make(C{})` builds the functor for the compute type.
template <class Make>
void float_op(const char* name, const Tensor& out, const Tensor& x, Make make) {
  visit_float(x.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    run<T, T>(out, x, make(ComputeType<T>{}));
  });
}

template <class F>
void test_op(const char* name, const Tensor& out, const Tensor& x, F f) {
  visit_float(x.dtype(), name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    run<bool, T>(out, x, f);
  });
}

/// A functor without parameters, whatever the compute type.
template <class F>
struct Always {
  template <class C>
  F operator()(C) const {
    return F{};
  }
};

template <class T>
void clamp(const Tensor& out, const Tensor& x, UnaryParams p) {
  using C = ComputeType<T>;
  run<T, T>(out, x, math::Clamp<C>{math::clamp_end<C>(p.a), math::clamp_end<C>(p.b)});
}

}  // namespace

void unary(UnaryOp op, const Tensor& out, const Tensor& x, UnaryParams p) {
  switch (op) {
    case UnaryOp::kNeg: return number_op("neg", out, x, math::Neg{});
    case UnaryOp::kAbs: return number_op("abs", out, x, math::Abs{});
    case UnaryOp::kSign: return number_op("sign", out, x, math::Sign{});
    case UnaryOp::kSquare: return number_op("square", out, x, math::Square{});
    case UnaryOp::kRelu: return number_op("relu", out, x, math::Relu{});
    case UnaryOp::kClamp:
      return visit_number(x.dtype(), "clamp",
                          [&](auto tag) { clamp<typename decltype(tag)::type>(out, x, p); });
    case UnaryOp::kFloor: return float_op("floor", out, x, Always<math::Floor>{});
    case UnaryOp::kCeil: return float_op("ceil", out, x, Always<math::Ceil>{});
    case UnaryOp::kRound: return float_op("round", out, x, Always<math::Round>{});
    case UnaryOp::kTrunc: return float_op("trunc", out, x, Always<math::Trunc>{});
    case UnaryOp::kExp: return float_op("exp", out, x, Always<math::Exp>{});
    case UnaryOp::kExpm1: return float_op("expm1", out, x, Always<math::Expm1>{});
    case UnaryOp::kLog: return float_op("log", out, x, Always<math::Log>{});
    case UnaryOp::kLog1p: return float_op("log1p", out, x, Always<math::Log1p>{});
    case UnaryOp::kLog2: return float_op("log2", out, x, Always<math::Log2>{});
    case UnaryOp::kSqrt: return float_op("sqrt", out, x, Always<math::Sqrt>{});
    case UnaryOp::kRsqrt: return float_op("rsqrt", out, x, Always<math::Rsqrt>{});
    case UnaryOp::kReciprocal: return float_op("reciprocal", out, x, Always<math::Reciprocal>{});
    case UnaryOp::kSin: return float_op("sin", out, x, Always<math::Sin>{});
    case UnaryOp::kCos: return float_op("cos", out, x, Always<math::Cos>{});
    case UnaryOp::kTanh: return float_op("tanh", out, x, Always<math::Tanh>{});
    case UnaryOp::kSigmoid: return float_op("sigmoid", out, x, Always<math::Sigmoid>{});
    case UnaryOp::kErf: return float_op("erf", out, x, Always<math::Erf>{});
    case UnaryOp::kGelu: return float_op("gelu", out, x, Always<math::Gelu>{});
    case UnaryOp::kGeluTanh: return float_op("gelu", out, x, Always<math::GeluTanh>{});
    case UnaryOp::kSilu: return float_op("silu", out, x, Always<math::Silu>{});
    case UnaryOp::kLeakyRelu:
      return float_op("leaky_relu", out, x,
                      [&]<class C>(C) { return math::LeakyRelu<C>{p.a.to<C>()}; });
    case UnaryOp::kElu:
      return float_op("elu", out, x, [&]<class C>(C) { return math::Elu<C>{p.a.to<C>()}; });
    case UnaryOp::kSoftplus:
      return float_op("softplus", out, x, [&]<class C>(C) {
        return math::Softplus<C>{p.a.to<C>(), p.b.to<C>()};
      });
    case UnaryOp::kIsNan: return test_op("isnan", out, x, math::IsNan{});
    case UnaryOp::kIsInf: return test_op("isinf", out, x, math::IsInf{});
    case UnaryOp::kIsFinite: return test_op("isfinite", out, x, math::IsFinite{});
  }
}

}  // namespace lathe::cuda
