// Matrix products on the CPU: dtypes and strides, over ops/matmul_kernels/gemm.h and gemm_bf16.h.
// Contracts: matmul.h.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/compute_alone.h"
#include "lathe/core/config.h"
#include "lathe/core/copy.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/matmul_kernels/gemm.h"
#include "lathe/ops/matmul_kernels/gemm_bf16.h"
#include "lathe/ops/reduce.h"

namespace lathe::cpu {

namespace {

/// A batch of matrices in memory that gemm can read: element (i, j) of matrix b is at
/// data[b * batch_step + i * row_step + j * col_step].
template <class T>
struct BatchRef {
  MatrixRef<T> first;
  int64_t batch_step;

  MatrixRef<T> operator[](int64_t b) const {
    MatrixRef<T> m = first;
    m.data += b * batch_step;
    return m;
  }
};

template <class T>
BatchRef<T> batch_ref(const Tensor& t) {
  const int64_t row_step = t.stride(-2), col_step = t.stride(-1);
  return {{t.data<std::remove_const_t<T>>(), t.dim(-2), t.dim(-1), row_step, col_step},
          t.ndim() == 3 ? t.stride(0) : 0};
}

/// True if rows or columns are dense and do not overlap, so that gemm takes the matrices as they
/// are.
bool is_dense_matrix(const Tensor& t) {
  const auto dense = [](int64_t size, int64_t step, int64_t outer_size, int64_t outer_step) {
    return (size == 1 || step == 1) && (outer_size == 1 || outer_step >= size);
  };
  const int64_t rows = t.dim(-2), cols = t.dim(-1), r = t.stride(-2), c = t.stride(-1);
  return dense(cols, c, rows, r) || dense(rows, r, cols, c);
}

/// t in `dtype` and in a layout that gemm can read.
Tensor prepared(const Tensor& t, DType dtype) {
  if (t.dtype() == dtype && is_dense_matrix(t)) return t;
  Tensor copy = empty(t.shape(), {.dtype = dtype});
  copy_values(copy, t);
  return copy;
}

constexpr int64_t kDotBlock = 65536;  // terms of a dot product for one thread

/// The sum of a[i] * b[i], in lanes that become vectors.
template <class T>
LATHE_CLONES T dot_block(const T* a, const T* b, int64_t n) {
  constexpr int64_t kLanes = 64;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] += a[i + l] * b[i + l];
  }
  for (int64_t l = 0; i + l < n; ++l) lanes[l] += a[i + l] * b[i + l];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

/// A product of a row and a column, both dense. The blocks do not depend on the threads.
template <class T>
T dot(const T* a, const T* b, int64_t n) {
  if (n <= kDotBlock) return dot_block(a, b, n);
  std::vector<T> parts(static_cast<size_t>(ceil_div(n, kDotBlock)));
  parallel_for(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kDotBlock;
      parts[static_cast<size_t>(p)] =
          dot_block(a + first, b + first, std::min(kDotBlock, n - first));
    }
  });
  double sum = 0;
  for (const T part : parts) sum += static_cast<double>(part);
  return static_cast<T>(sum);
}

template <class T>
void multiply_floats(const Tensor& y, const Tensor& a, const Tensor& b, GemmMode mode) {
  const auto out = batch_ref<T>(y);
  const auto left = batch_ref<const T>(a), right = batch_ref<const T>(b);
  const int64_t count = y.ndim() == 3 ? y.dim(0) : 1;
  const int64_t work = std::max<int64_t>(y.dim(-2) * y.dim(-1) * a.dim(-1), 1);
  constexpr int64_t kLarge = 5'000'000, kGrain = 1 << 16;  // multiplications
  if (work == a.dim(-1) && a.stride(-1) == 1 && b.stride(-2) == 1) {
    parallel_for(count, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T sum = dot(left[i].data, right[i].data, work);
        *out[i].data = mode == GemmMode::kAdd ? *out[i].data + sum : sum;
      }
    });
    return;
  }
  if (count == 1 || work >= kLarge) {  // few or large products: all threads work on each
    for (int64_t i = 0; i < count; ++i) gemm(out[i], left[i], right[i], mode);
    return;
  }
  parallel_for(count, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
    const ComputeAlone alone;
    for (int64_t i = begin; i < end; ++i) {
      if constexpr (std::is_same_v<T, float>) {
        gemm(out[i], left[i], right[i], mode);
      } else {
        gemm_serial(out[i], left[i], right[i], mode);
      }
    }
  });
}

/// Integer sums are taken modulo 2^64, then modulo the type's width, as integers wrap.
template <class T>
void multiply_integers(const Tensor& y, const Tensor& a, const Tensor& b) {
  const auto out = batch_ref<T>(y);
  const auto left = batch_ref<const T>(a), right = batch_ref<const T>(b);
  const int64_t rows = y.dim(-2), cols = y.dim(-1), terms = a.dim(-1);
  const int64_t count = y.ndim() == 3 ? y.dim(0) : 1;
  const int64_t grain = std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, cols * terms));
  const auto at = [](const auto& m, int64_t i, int64_t j) -> auto& {
    return m.data[i * m.row_step + j * m.col_step];
  };
  parallel_for(count * rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t i = n % rows;
      const auto c = out[n / rows];
      const auto l = left[n / rows], r = right[n / rows];
      for (int64_t j = 0; j < cols; ++j) {
        uint64_t sum = 0;
        for (int64_t k = 0; k < terms; ++k) {
          sum += static_cast<uint64_t>(at(l, i, k)) * static_cast<uint64_t>(at(r, k, j));
        }
        at(c, i, j) = static_cast<T>(sum);
      }
    }
  });
}

/// Few rows of a half type, without a converted copy of b.
template <class T>
void multiply_few(const Tensor& y, const Tensor& a, const Tensor& b, GemmMode mode) {
  const Tensor left = prepared(a, kF32), right = prepared(b, b.dtype());
  gemm_few(batch_ref<float>(y).first, batch_ref<const float>(left).first,
           batch_ref<const T>(right).first, mode);
}

/// True if gemm_few() computes the product [m,k] x [k,n] in a half type. It reads four columns at a
/// time; with fewer it reads the last one again.
bool has_few_rows(const Tensor& a, const Tensor& b) {
  return a.ndim() == 2 && a.dim(0) <= kFewRows && b.dim(1) >= kFewColumns;
}

/// y's dtype is the compute dtype of a and b.
void multiply(const Tensor& y, const Tensor& a, const Tensor& b, GemmMode mode) {
  if (y.numel() == 0) return;
  if (a.dim(-1) == 0) {
    if (mode == GemmMode::kWrite) fill_values(y, 0);
    return;
  }
  if (has_few_rows(a, b) && a.dtype() == b.dtype()) {
    if (a.dtype() == kBF16) return multiply_few<BFloat16>(y, a, b, mode);
    if (a.dtype() == kF16) return multiply_few<Half>(y, a, b, mode);
  }
  const Tensor left = prepared(a, y.dtype()), right = prepared(b, y.dtype());
  if (y.dtype() == kF64) {
    multiply_floats<double>(y, left, right, mode);
  } else {
    multiply_floats<float>(y, left, right, mode);
  }
}

/// The product by bf16 instructions, plus a bias; undefined where multiply() has to compute it.
Tensor product_in_bf16(const Tensor& a, const Tensor& b, const Tensor& bias = {}) {
  if (a.dtype() != kBF16 || b.dtype() != kBF16 || has_few_rows(a, b)) return {};
  return bf16_product(a, b, bias);
}

Tensor rounded_product(const Tensor& y, DType dtype) {
  if (y.dtype() == dtype) return y;
  Tensor half = empty(y.shape(), {.dtype = dtype});
  copy_values(half, y);
  return half;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  Shape shape = a.shape();
  shape[a.ndim() - 1] = b.dim(-1);
  if (!is_floating(a.dtype())) {
    Tensor y = empty(shape, {.dtype = a.dtype()});
    visit_integer(a.dtype(), "matmul",
                  [&](auto tag) { multiply_integers<typename decltype(tag)::type>(y, a, b); });
    return y;
  }
  if (Tensor y = product_in_bf16(a, b); y.defined()) return y;
  const DType dtype = compute_dtype(a.dtype());
  Tensor y = empty(shape, {.dtype = dtype});
  multiply(y, a, b, GemmMode::kWrite);
  return rounded_product(y, a.dtype());
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias) {
  const Tensor transposed = alias(w, {w.dim(1), w.dim(0)}, {w.stride(1), w.stride(0)}, w.offset());
  if (Tensor y = product_in_bf16(x, transposed, bias); y.defined()) return y;
  const DType dtype = compute_dtype(x.dtype());
  Tensor y = empty({x.dim(0), w.dim(0)}, {.dtype = dtype});
  if (bias.defined()) copy_values(y, bias);
  multiply(y, x, transposed, bias.defined() ? GemmMode::kAdd : GemmMode::kWrite);
  return rounded_product(y, x.dtype());
}

LinearParamGrads linear_param_grads(const Tensor& dy, const Tensor& x) {
  const Tensor dy_t = alias(dy, {dy.dim(1), dy.dim(0)}, {dy.stride(1), dy.stride(0)}, dy.offset());
  return {cpu::matmul(dy_t, x), sum(dy, {0})};
}

}  // namespace lathe::cpu
