// CPU kernels of ops/unary.h: one row, one instance per op and dtype. Contract: ops/unary.h.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "lathe/core/x86_levels.h"
#include "lathe/ops/elementwise_kernels/half_rows.h"
#include "lathe/ops/elementwise_kernels/unary_avx512.h"
#include "lathe/ops/elementwise_kernels/unary_table.h"
#include "lathe/ops/elementwise_kernels/wide_forms.h"
#include "lathe/ops/row_kernels.h"

namespace lathe::cpu {

namespace {

template <class F, class... Fs>
constexpr bool kIsOneOf = (std::is_same_v<F, Fs> || ...);

/// Ops for which wider vectors pay: those of a few dozen instructions without branches or calls,
/// and cheap ones, whose rows a graph keeps in the cache.
template <class F>
constexpr bool kHasWideRow =
    kIsOneOf<F, math::Sigmoid, math::Silu, math::Exp, math::Tanh, math::Erf, math::Gelu,
             math::GeluTanh, math::Neg, math::Abs, math::Sign, math::Square, math::Relu, math::Sqrt,
             math::Reciprocal, math::Log, math::Log1p, math::Expm1, math::Rsqrt, math::Floor,
             math::Ceil, math::Round, math::Trunc, math::Clamp<float>, math::LeakyRelu<float>,
             math::Elu<float>, math::Softplus<float>>;

/// Ops without parameters of more than a few instructions: those of half types are looked up.
template <class F>
constexpr bool kIsLookedUp =
    std::is_empty_v<F> &&
    !kIsOneOf<F, math::Neg, math::Square, math::Abs, math::Sign, math::Floor, math::Ceil,
              math::Round, math::Trunc, math::Relu, math::IsNan, math::IsInf, math::IsFinite>;

/// The op's row in AVX-512, or null.
template <class F>
constexpr UnaryRow* kRowAvx512 = nullptr;
#if defined(__x86_64__)
template <>
constexpr UnaryRow* kRowAvx512<math::Exp> = exp_avx512;
template <>
constexpr UnaryRow* kRowAvx512<math::Log> = log_avx512;
template <>
constexpr UnaryRow* kRowAvx512<math::Sqrt> = sqrt_avx512;
template <>
constexpr UnaryRow* kRowAvx512<math::Tanh> = tanh_avx512;
template <>
constexpr UnaryRow* kRowAvx512<math::Sigmoid> = sigmoid_avx512;
template <>
constexpr UnaryRow* kRowAvx512<math::Silu> = silu_avx512;
template <>
constexpr UnaryRow* kRowAvx512<math::Gelu> = gelu_avx512;
template <>
constexpr UnaryRow* kRowAvx512<math::GeluTanh> = gelu_tanh_avx512;
template <>
constexpr UnaryRow* kRowAvx512<math::Sin> = sin_avx512;
template <>
constexpr UnaryRow* kRowAvx512<math::Cos> = cos_avx512;
#endif

/// Runs the op's row in AVX-512 if there is one and the processor has it.   →  whether it has run
template <class F>
bool row_avx512(float* out, const float* x, int64_t n) {
  if constexpr (kRowAvx512<F> != nullptr) {
    if (has_avx512()) {
      kRowAvx512<F>(out, x, n);
      return true;
    }
  }
  return false;
}

template <class F>
LATHE_CLONES void wide_row(float* out, const float* x, int64_t n, F f) {
  for (int64_t i = 0; i < n; ++i) out[i] = f(x[i]);
}

template <class F>
LATHE_CLONES bool form_holds(const float* x, int64_t n) {
  uint32_t outside = 0;  // as wide as a float: a bool would not become vector code
  for (int64_t i = 0; i < n; ++i) outside |= WideForm<F>::holds(x[i]) ? 0u : 1u;
  return outside == 0;
}
template <class F>
LATHE_CLONES void form_block(float* out, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = WideForm<F>::value(x[i]);
}
/// As in binary_cpu.cpp: numbers outside the form's range are looked for in blocks.
template <class F>
void form_row(float* out, const float* x, int64_t n, F f) {
  constexpr int64_t kBlock = 1024;
  float inside[kBlock];
  for (; n > 0; out += kBlock, x += kBlock, n -= kBlock) {
    const int64_t count = std::min(kBlock, n);
    const bool all = form_holds<F>(x, count);
    float* const to = all ? out : inside;
    if (!row_avx512<F>(to, x, count)) form_block<F>(to, x, count);
    if (all) continue;
    for (int64_t i = 0; i < count; ++i) out[i] = WideForm<F>::holds(x[i]) ? inside[i] : f(x[i]);
  }
}

/// True if float_row() takes the op.
template <class F>
constexpr bool kHasFloatRow = kHasWideRow<F> || WideForm<F>::kExists;

template <class F>
void float_row(float* out, const float* x, int64_t n, F f) {
  if constexpr (WideForm<F>::kExists) {
    form_row(out, x, n, f);
  } else {
    if (!row_avx512<F>(out, x, n)) wide_row(out, x, n, f);
  }
}
template <class Out, class T, class F>
void wide_type_row(const StridedRow& row, F f) {
  if (row.dense<Out>(0) && row.dense<T>(1)) {
    if constexpr (kHasFloatRow<F> && std::is_same_v<T, float> && std::is_same_v<Out, float>) {
      return float_row(row.at<float>(0), row.at<float>(1), row.size, f);
    }
    Out* out = row.at<Out>(0);
    const T* x = row.at<T>(1);
    for (int64_t i = 0; i < row.size; ++i) out[i] = Out(f(x[i]));
    return;
  }
  if constexpr (kRowAvx512<F> != nullptr && std::is_same_v<T, float>) {
    // With the bits of a dense row.
    return row_by_blocks<Out, T, 1>(row, [f](const StridedRow& block) {
      const bool is_one = block.step[1] == 0;  // number for the whole block
      float* const out = block.at<float>(0);
      float_row(out, block.at<float>(1), is_one ? 1 : block.size, f);
      if (is_one) std::fill(out + 1, out + block.size, out[0]);
    });
  }
  char *out = row.data[0], *x = row.data[1];
  for (int64_t i = 0; i < row.size; ++i, out += row.step[0], x += row.step[1]) {
    *reinterpret_cast<Out*>(out) = Out(in_form(f, *reinterpret_cast<T*>(x)));
  }
}

template <class Out, class T, class F>
void half_type_row(const StridedRow& row, F f) {
  const auto by_blocks = [f](const StridedRow& halves) {
    row_by_blocks<Out, T, 1>(
        halves, [&](const StridedRow& block) { wide_type_row<ComputeType<Out>, float>(block, f); });
  };
  if constexpr (kIsLookedUp<F>) {
    if (row.size >= kLookedUpRow && row.dense<Out>(0) && row.dense<T>(1)) {
      const Out* const table = table_of<Out, T>([&](Out* out, T* x, int64_t n) {
        char* const data[] = {reinterpret_cast<char*>(out), reinterpret_cast<char*>(x)};
        const int64_t step[] = {sizeof(Out), sizeof(T)};
        by_blocks(StridedRow{data, step, n});
      });
      return look_up(row.at<Out>(0), table, row.at<T>(1), row.size);
    }
  }
  by_blocks(row);
}

template <class Out, class T, class F>
void unary_row(const StridedRow& row, F f) {
  if constexpr (kIsHalf<T>) {
    half_type_row<Out, T>(row, f);
  } else {
    wide_type_row<Out, T>(row, f);
  }
}

}  // namespace

RowKernel unary_kernel(UnaryOp op, DType x, UnaryParams p) {
  RowKernel kernel;
  math::visit_unary(op, x, p, [&]<class Out, class T, class F>(TypeTag<Out>, TypeTag<T>, F f) {
    kernel = RowKernel::of<unary_row<Out, T, F>>(dtype_of<Out>, dtype_of<T>, f);
  });
  return kernel;
}

void unary(UnaryOp op, const Tensor& out, const Tensor& x, UnaryParams p) {
  strided_loop(out, x, unary_kernel(op, x.dtype(), p));
}

}  // namespace lathe::cpu
