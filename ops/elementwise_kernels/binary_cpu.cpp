// CPU kernels of ops/binary.h: one row, one instance per op and dtype. Contract: ops/binary.h.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "lathe/ops/elementwise_kernels/binary_table.h"
#include "lathe/ops/elementwise_kernels/half_rows.h"
#include "lathe/ops/elementwise_kernels/wide_forms.h"
#include "lathe/ops/row_kernels.h"

namespace lathe::cpu {

namespace {

/// Ops for which wider vectors pay, as in unary_cpu.cpp: all but those that call a function.
template <class F, class... Fs>
constexpr bool kIsNoneOf = (!std::is_same_v<F, Fs> && ...);
template <class F>
constexpr bool kHasWidePair = kIsNoneOf<F, math::DivTrunc, math::DivFloor, math::Pow, math::Hypot,
                                        math::Fmod, math::Remainder, math::Atan2>;

struct Cube {
  float operator()(float a, float) const { return a * a * a; }
};

template <class Out, class F>
LATHE_CLONES void wide_pair(Out* out, const float* a, const float* b, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
}
template <class Out, class F>
LATHE_CLONES void wide_pair(Out* out, const float* a, float b, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b);
}
template <class Out, class F>
LATHE_CLONES void wide_pair(Out* out, float a, const float* b, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(a, b[i]);
}

template <class F, class T>
LATHE_CLONES bool form_holds(const T* a, const T* b, int64_t n) {
  using Flag = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  Flag outside = 0;  // as wide as an operand: a bool would not become vector code
  for (int64_t i = 0; i < n; ++i) outside |= WideForm<F>::holds(a[i], b[i]) ? Flag{0} : Flag{1};
  return outside == 0;
}
template <class F, class T>
LATHE_CLONES void form_block(T* out, const T* a, const T* b, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = WideForm<F>::value(a[i], b[i]);
}
/// Numbers outside the form's range are rare, so they are looked for in blocks. b is dense or, with
/// step 0, one number.
template <class F, class T>
void form_row(T* out, const T* a, const T* b, int64_t b_step, int64_t n, F f) {
  constexpr int64_t kBlock = 1024;
  T same[kBlock];
  if (b_step == 0) std::fill_n(same, std::min(kBlock, n), *b);
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = std::min(kBlock, n - first);
    const T *p = a + first, *q = b_step == 0 ? same : b + first;
    if (form_holds<F>(p, q, count)) {
      form_block<F>(out + first, p, q, count);
      continue;
    }
    for (int64_t i = 0; i < count; ++i) out[first + i] = in_form(f, p[i], q[i]);
  }
}

/// Ops that are a * f(b), with an f of many instructions.
template <class F>
constexpr bool kIsFactor =
    std::is_same_v<F, math::GeluGrad> || std::is_same_v<F, math::GeluTanhGrad>;

template <class T>
LATHE_CLONES void scale_halves(T* out, const T* a, const float* factors, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = T(float{a[i]} * factors[i]);
}

/// out[i] = a[i] * f(b[i]) for half types: f is looked up.
template <class F, class T>
void factor_row(T* out, const T* a, const T* b, int64_t n) {
  constexpr int64_t kBlock = 512;
  const float* const table = table_of<float, T>([](float* factors, const T* x, int64_t count) {
    for (int64_t i = 0; i < count; ++i) factors[i] = F{}(1.0f, float{x[i]});
  });
  float factors[kBlock];
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = std::min(kBlock, n - first);
    look_up(factors, table, b + first, count);
    scale_halves(out + first, a + first, factors, count);
  }
}

/// out[i] = f(a[i], b[i]) over one row; dense rows and rows with one repeated operand vectorise.
template <class Out, class T, class F>
void wide_type_row(const StridedRow& row, F f) {
  const auto store = [&](Out& out, T a, T b) { out = Out(in_form(f, a, b)); };
  Out* out = row.at<Out>(0);
  const T* a = row.at<T>(1);
  const T* b = row.at<T>(2);
  const int64_t n = row.size;
  if constexpr (kHasWidePair<F> && std::is_same_v<T, float>) {
    if (row.dense<Out>(0) && row.dense<T>(1)) {
      if (row.dense<T>(2)) return wide_pair(out, a, b, n, f);
      if (row.step[2] == 0) return wide_pair(out, a, *b, n, f);
    } else if (row.dense<Out>(0) && row.step[1] == 0 && row.dense<T>(2)) {
      return wide_pair(out, *a, b, n, f);
    }
  }
  if constexpr (std::is_same_v<F, math::Pow> && std::is_same_v<T, float>) {
    if (row.dense<Out>(0) && row.dense<T>(1) && row.step[2] == 0 && (*b == 2.0f || *b == 3.0f)) {
      return *b == 2.0f ? wide_pair(out, a, a, n, math::Mul{}) : wide_pair(out, a, *b, n, Cube{});
    }
  }
  if constexpr (kHasForm<F, T>) {
    if (row.dense<Out>(0) && row.dense<T>(1) && (row.dense<T>(2) || row.step[2] == 0)) {
      return form_row(out, a, b, row.dense<T>(2) ? 1 : 0, n, f);
    }
  }
  if (row.dense<Out>(0) && row.dense<T>(1) && row.dense<T>(2)) {
    for (int64_t i = 0; i < n; ++i) store(out[i], a[i], b[i]);
  } else if (row.dense<Out>(0) && row.dense<T>(1) && row.step[2] == 0) {
    const T same = *b;
    for (int64_t i = 0; i < n; ++i) store(out[i], a[i], same);
  } else if (row.dense<Out>(0) && row.step[1] == 0 && row.dense<T>(2)) {
    const T same = *a;
    for (int64_t i = 0; i < n; ++i) store(out[i], same, b[i]);
  } else {
    char *po = row.data[0], *pa = row.data[1], *pb = row.data[2];
    for (int64_t i = 0; i < n; ++i) {
      store(*reinterpret_cast<Out*>(po), *reinterpret_cast<T*>(pa), *reinterpret_cast<T*>(pb));
      po += row.step[0], pa += row.step[1], pb += row.step[2];
    }
  }
}

template <class Out, class T, class F>
void half_type_row(const StridedRow& row, F f) {
  if constexpr (kIsFactor<F>) {
    if (row.size >= kLookedUpRow && row.dense<Out>(0) && row.dense<T>(1) && row.dense<T>(2)) {
      return factor_row<F>(row.at<Out>(0), row.at<T>(1), row.at<T>(2), row.size);
    }
  }
  row_by_blocks<Out, T, 2>(
      row, [&](const StridedRow& block) { wide_type_row<ComputeType<Out>, float>(block, f); });
}

template <class Out, class T, class F>
void binary_row(const StridedRow& row, F f) {
  if constexpr (kIsHalf<T>) {
    half_type_row<Out, T>(row, f);
  } else {
    wide_type_row<Out, T>(row, f);
  }
}

}  // namespace

RowKernel binary_kernel(BinaryOp op, DType operands) {
  RowKernel kernel;
  math::visit_binary(op, operands, [&]<class Out, class T, class F>(TypeTag<Out>, TypeTag<T>, F f) {
    kernel = RowKernel::of<binary_row<Out, T, F>>(dtype_of<Out>, dtype_of<T>, f);
  });
  return kernel;
}

void binary(BinaryOp op, const Tensor& out, const Tensor& a, const Tensor& b) {
  strided_loop(out, a, b, binary_kernel(op, a.dtype()));
}

}  // namespace lathe::cpu
