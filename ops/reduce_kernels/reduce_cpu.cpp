// CPU kernels of the reductions: which folder, how elements are read and results written. The order
// in which elements are visited is in reduce_order_cpu.h, the hot loops are in reduce_fold_cpu.h,
// the arithmetic is in reduce_math.h.
#include <algorithm>
#include <type_traits>

#include "lathe/core/copy.h"
#include "lathe/core/visit.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/reduce_kernels/reduce_fold_cpu.h"
#include "lathe/ops/reduce_kernels/reduce_order_cpu.h"
#include "lathe/ops/row_kernels.h"

namespace lathe {

namespace reduce_order {

Loops loops_of(const Tensor& out, const Tensor& x) {
  const auto in_bytes = static_cast<int64_t>(size_of(x.dtype()));
  const auto out_bytes = static_cast<int64_t>(size_of(out.dtype()));
  // The output's step is 0 where the dimension is reduced.
  const StridedOperand operands[] = {{nullptr, in_bytes, x.strides()},
                                     {nullptr, out_bytes, broadcast_strides(out, x.shape())}};
  const LoopNest all = order_dims(x.shape(), operands, 2, LoopOrder::kMovingInside);
  Loops loops;
  loops.in = static_cast<const char*>(x.raw_data());
  loops.out = static_cast<char*>(out.raw_data());
  loops.kept.operands = loops.reduced.operands = 2;
  loops.inner = all.ndim == 0 || all.dims[0].step[1] == 0;
  for (int d = 0; d < all.ndim; ++d) {
    (all.dims[d].step[1] == 0 ? loops.reduced : loops.kept).push(all.dims[d]);
  }
  if (loops.kept.ndim == 0) loops.kept.push({1, {}});
  if (loops.reduced.ndim == 0) loops.reduced.push({1, {in_bytes}});
  return loops;
}

}  // namespace reduce_order

namespace {

static_assert(reduce_fold::LogSumExp<float>::kMost >= reduce_order::kBlock);

using reduce_order::Load;
using reduce_order::Store;

template <class A, class T>
LATHE_CLONES void load_dense(A* __restrict__ to, const T* __restrict__ from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<A>(from[i]);
}

template <class A, class T>
void load_as(A* to, const char* from, int64_t n, int64_t step) {
  if constexpr (std::is_same_v<A, float> && sizeof(T) == 2 && !std::is_integral_v<T>) {
    if (step == sizeof(T)) return convert(to, reinterpret_cast<const T*>(from), n);
  }
  if (step == sizeof(T)) return load_dense(to, reinterpret_cast<const T*>(from), n);
  for (int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<A>(*reinterpret_cast<const T*>(from + i * step));
  }
}

template <class T>
void load_truth(int64_t* to, const char* from, int64_t n, int64_t step) {
  for (int64_t i = 0; i < n; ++i) to[i] = *reinterpret_cast<const T*>(from + i * step) != T(0);
}

template <class A, class T>
void store_as(void* to, A value) {
  *static_cast<T*>(to) = static_cast<T>(value);
}

/// Reduces x's elements, read as numbers of type A, with `folder`, and writes them to out as T.
template <class Folder, class X, class T>
void run(const Tensor& out, const Tensor& x, const Folder& folder) {
  using A = typename Folder::Value;
  reduce_order::run<Folder>(
      reduce_order::loops_of(out, x), load_as<A, X>, sizeof(X),
      sizeof(A) == sizeof(X) && std::is_integral_v<A> == std::is_integral_v<X>, store_as<A, T>,
      folder);
}

/// Sum and product: floats in their compute type, integers modulo 2^64.
template <template <class> class Op>
void run_accumulating(const Tensor& out, const Tensor& x) {
  visit_all(x.dtype(), [&](auto tag) {
    using X = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<X>) {
      run<reduce_fold::Simple<Op<uint64_t>>, X, int64_t>(out, x, {});
    } else {
      run<reduce_fold::Simple<Op<ComputeType<X>>>, X, X>(out, x, {});
    }
  });
}

/// Largest and smallest: any dtype to itself, integers as i64.
template <template <class> class Op>
void run_extreme(const Tensor& out, const Tensor& x) {
  visit_all(x.dtype(), [&](auto tag) {
    using X = typename decltype(tag)::type;
    run<reduce_fold::Simple<Op<SumType<X>>>, X, X>(out, x, {});
  });
}

/// All and any: the smallest and the largest of `x != 0`.
template <template <class> class Op>
void run_truth(const Tensor& out, const Tensor& x) {
  visit_all(x.dtype(), [&](auto tag) {
    using X = typename decltype(tag)::type;
    using Folder = reduce_fold::Simple<Op<int64_t>>;
    reduce_order::run<Folder>(reduce_order::loops_of(out, x), load_truth<X>, sizeof(X), false,
                              store_as<int64_t, bool>, Folder{});
  });
}

template <class Make>
void run_float(const char* op, const Tensor& out, const Tensor& x, Make make) {
  visit_float(x.dtype(), op, [&](auto tag) {
    using X = typename decltype(tag)::type;
    const auto folder = make(ComputeType<X>());
    run<std::remove_const_t<decltype(folder)>, X, X>(out, x, folder);
  });
}

/// The result of a reduction of no elements.
void fill_empty(ReduceOp op, const Tensor& out) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAny:
    case ReduceOp::kNorm: return fill_values(out, 0);
    case ReduceOp::kProd:
    case ReduceOp::kAll: return fill_values(out, 1);
    case ReduceOp::kLogSumExp: return fill_values(out, reduce_math::kLowest<double>);
    default: return fill_values(out, std::numeric_limits<double>::quiet_NaN());
  }
}

}  // namespace

void cpu::reduce(ReduceOp op, const Tensor& out, const Tensor& x, int64_t correction) {
  if (out.numel() == 0) return;
  if (x.numel() == 0) return fill_empty(op, out);
  switch (op) {
    case ReduceOp::kSum: return run_accumulating<reduce_math::Sum>(out, x);
    case ReduceOp::kProd: return run_accumulating<reduce_math::Prod>(out, x);
    case ReduceOp::kAmax: return run_extreme<reduce_math::Max>(out, x);
    case ReduceOp::kAmin: return run_extreme<reduce_math::Min>(out, x);
    case ReduceOp::kAll: return run_truth<reduce_math::Min>(out, x);
    case ReduceOp::kAny: return run_truth<reduce_math::Max>(out, x);
    case ReduceOp::kMean: {
      const int64_t count = x.numel() / out.numel();
      return run_float("mean", out, x, [&]<class A>(A) {
        return reduce_fold::Simple<reduce_math::Sum<A>>{{static_cast<A>(count)}};
      });
    }
    case ReduceOp::kVar:
    case ReduceOp::kStd:
      return run_float("var", out, x, [&]<class A>(A) {
        return reduce_fold::Variance<A>{static_cast<A>(correction), op == ReduceOp::kStd};
      });
    case ReduceOp::kLogSumExp:
      return run_float("logsumexp", out, x, []<class A>(A) { return reduce_fold::LogSumExp<A>{}; });
    case ReduceOp::kNorm:
      return run_float("norm", out, x, []<class A>(A) { return reduce_fold::Norm<A>{}; });
  }
}

namespace {

template <class Run>
void visit_sum(DType dtype, const Run& run) {
  if (dtype == kF64) return run(double());
  run(float());
}

static_assert(cpu::kSumBlock == reduce_order::kBlock);
static_assert(cpu::kSumChunk == reduce_order::kBlock * reduce_order::kChunkBlocks);

}  // namespace

void cpu::add_block_sum(DType dtype, void* partial, const void* block, int64_t n) {
  visit_sum(dtype, [&]<class A>(A) {
    using Folder = reduce_fold::Simple<reduce_math::Sum<A>>;
    Folder::join(*static_cast<A*>(partial), Folder::fold(static_cast<const A*>(block), n));
  });
}

void cpu::join_sums(DType dtype, void* out, void* partials, int64_t chunks, int64_t divisor) {
  visit_sum(dtype, [&]<class A>(A) {
    using Folder = reduce_fold::Simple<reduce_math::Sum<A>>;
    A* const parts = static_cast<A*>(partials);
    reduce_order::join_pairs<Folder>(parts, chunks, 1);
    *static_cast<A*>(out) = Folder{{static_cast<A>(divisor)}}.finish(parts[0]);
  });
}

}  // namespace lathe
