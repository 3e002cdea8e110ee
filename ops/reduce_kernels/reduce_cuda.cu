// CUDA reductions of ops/reduce.h: which arithmetic, how elements are read and results written. The
// kernels are those of reduce_kernels.cuh, the arithmetic is that of reduce_math.h. Sums of half
// types and f32 are f32 trees of depth log2(n), unlike the CPU's blocks: the same error bound, but
// not the same bits.
#include "lathe/core/visit.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/reduce_kernels/reduce_device.cuh"

namespace lathe::cuda {

namespace {

/// Stores op.finish(total), where op is one of reduce_math.h's.
template <class Op, class Out>
struct Finished {
  Out* out;
  Op op;
  __device__ void operator()(int64_t at, typename Op::Value total) const {
    out[at] = static_cast<Out>(op.finish(total));
  }
};

template <class A, class Out>
struct Root {
  Out* out;
  __device__ void operator()(int64_t at, double squares) const {
    out[at] = static_cast<Out>(static_cast<A>(std::sqrt(squares)));
  }
};

template <class A, class Out>
struct Spread {
  Out* out;
  A correction;
  bool root;
  __device__ void operator()(int64_t at, const reduce_math::Moments<A>& moments) const {
    const A v = moments.variance(correction);
    out[at] = static_cast<Out>(root ? std::sqrt(v) : v);
  }
};

template <class A, class Out>
struct Log {
  Out* out;
  __device__ void operator()(int64_t at, const reduce_math::ScaledSum<A>& sum) const {
    out[at] = static_cast<Out>(sum.log());
  }
};

/// For integers: stores op.finish(total) in the output's dtype.
template <class Op>
struct FinishedInteger {
  IntegerArray out;
  Op op;
  __device__ void operator()(int64_t at, typename Op::Value total) const {
    out.set(at, static_cast<int64_t>(op.finish(total)));
  }
};

/// Reduces the elements of x at `source` by Math into `target`, which writes to `out`.
template <class Math, class Source, class Target>
void run(const Tensor& out, const Tensor& x, Source source, const Target& target) {
  const ReduceNests nests = reduce_nests(x.shape(), x.strides(), out.shape(), out.strides());
  launch_reduction<Math>(target, source, nests, x.device());
}

/// Reduces floats in their compute type, integers in A.
template <template <class> class Op, class A>
void run_simple(const Tensor& out, const Tensor& x) {
  if (!is_floating(x.dtype())) {
    using O = Op<A>;
    return run<SimpleMath<O>>(out, x, IntegerArray(x), FinishedInteger<O>{IntegerArray(out), O{}});
  }
  visit_float(x.dtype(), "reduce", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using O = Op<ComputeType<T>>;
    run<SimpleMath<O>>(out, x, static_cast<const T*>(x.data<T>()),
                       Finished<O, T>{out.data<T>(), O{}});
  });
}

/// All and any: the smallest and the largest of `x != 0`.
template <template <class> class Op>
void run_truth(const Tensor& out, const Tensor& x) {
  using O = Op<uint32_t>;
  run<SimpleMath<O>>(out, x, TruthArray(x), Finished<O, bool>{out.data<bool>(), O{}});
}

void run_mean(const Tensor& out, const Tensor& x) {
  visit_float(x.dtype(), "mean", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using O = reduce_math::Sum<ComputeType<T>>;
    const int64_t count = out.numel() == 0 ? 0 : x.numel() / out.numel();
    const O op{static_cast<ComputeType<T>>(count)};
    run<SimpleMath<O>>(out, x, static_cast<const T*>(x.data<T>()),
                       Finished<O, T>{out.data<T>(), op});
  });
}

void run_variance(const Tensor& out, const Tensor& x, int64_t correction, bool root) {
  visit_float(x.dtype(), "var", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    const Spread<A, T> target{out.data<T>(), static_cast<A>(correction), root};
    run<MomentsMath<A>>(out, x, static_cast<const T*>(x.data<T>()), target);
  });
}

}  // namespace

void reduce(ReduceOp op, const Tensor& out, const Tensor& x, int64_t correction) {
  switch (op) {
    case ReduceOp::kSum: return run_simple<reduce_math::Sum, uint64_t>(out, x);  // modulo 2^64
    case ReduceOp::kProd: return run_simple<reduce_math::Prod, uint64_t>(out, x);
    case ReduceOp::kAmax: return run_simple<reduce_math::Max, int64_t>(out, x);
    case ReduceOp::kAmin: return run_simple<reduce_math::Min, int64_t>(out, x);
    case ReduceOp::kAll: return run_truth<reduce_math::Min>(out, x);
    case ReduceOp::kAny: return run_truth<reduce_math::Max>(out, x);
    case ReduceOp::kMean: return run_mean(out, x);
    case ReduceOp::kVar:
    case ReduceOp::kStd: return run_variance(out, x, correction, op == ReduceOp::kStd);
    case ReduceOp::kNorm:
      return visit_float(x.dtype(), "norm", [&](auto tag) {
        using T = typename decltype(tag)::type;
        run<SquaresMath>(out, x, static_cast<const T*>(x.data<T>()),
                         Root<ComputeType<T>, T>{out.data<T>()});
      });
    case ReduceOp::kLogSumExp:
      return visit_float(x.dtype(), "logsumexp", [&](auto tag) {
        using T = typename decltype(tag)::type;
        using A = ComputeType<T>;
        run<LogSumExpMath<A>>(out, x, static_cast<const T*>(x.data<T>()), Log<A, T>{out.data<T>()});
      });
  }
}

}  // namespace lathe::cuda
