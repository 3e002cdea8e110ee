// Matrix products on the GPU by the portable kernel of ops/matmul_kernels/gemm_tile.cuh. Contracts:
// matmul.h. When it is used: matmul_cuda.h.
#include <type_traits>

#include "lathe/core/visit.h"
#include "lathe/ops/matmul_kernels/gemm_tile.cuh"
#include "lathe/ops/matmul_kernels/matmul_cuda.h"

namespace lathe::cuda {

namespace {

/// A batch of matrices of any strides; C is the type that they are computed in.
template <class T, class C>
struct Matrix {
  using Row = const T*;
  using Term = int64_t;

  const T* data;
  int64_t batch_step, row_step, term_step;
  bool terms_first;

  Matrix(const T* start, int64_t batch, int64_t row, int64_t term)
      : data(start), batch_step(batch), row_step(row), term_step(term), terms_first(term <= row) {
    if (start == nullptr) batch_step = row_step = 0;  // empty: a null pointer takes no offset
  }

  LATHE_HD Row row(int64_t batch, int64_t i) const {
    return data + batch * batch_step + i * row_step;
  }
  LATHE_HD Term term(int64_t k) const { return k * term_step; }
  LATHE_HD C load(Row row, Term term) const { return static_cast<C>(row[term]); }
};

/// Stores dense row-major matrices. `bias`, if any, is added to each row before rounding.
template <class T, class C>
struct Product {
  T* data;
  int64_t rows, cols;
  const T* bias;
  int64_t bias_step;

  LATHE_HD void operator()(int64_t batch, int64_t i, int64_t j, C sum) const {
    if (bias != nullptr) sum += static_cast<C>(bias[j * bias_step]);
    data[(batch * rows + i) * cols + j] = static_cast<T>(sum);
  }
};

/// Computes f64 in f64 and other floats in f32; integers modulo 2^64, then modulo the type's width.
template <class T>
using ProductType = std::conditional_t<std::is_integral_v<T>, uint64_t, ComputeType<T>>;

int64_t batch_step(const Tensor& t) { return t.ndim() == 3 ? t.stride(0) : 0; }

}  // namespace

Tensor portable_matmul(const Tensor& a, const Tensor& b) {
  Shape shape = a.shape();
  shape[a.ndim() - 1] = b.dim(-1);
  Tensor y = empty(shape, {.dtype = a.dtype(), .device = a.device()});
  const GemmSize size{y.dim(-2), y.dim(-1), a.dim(-1), y.ndim() == 3 ? y.dim(0) : 1};
  visit_number(a.dtype(), "matmul", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ProductType<T>;
    const Matrix<T, C> left(a.data<T>(), batch_step(a), a.stride(-2), a.stride(-1));
    const Matrix<T, C> right(b.data<T>(), batch_step(b), b.stride(-1), b.stride(-2));
    gemm<C>(left, right, Product<T, C>{y.data<T>(), size.rows, size.cols, nullptr, 0}, size,
            y.device());
  });
  return y;
}

Tensor portable_linear(const Tensor& x, const Tensor& w, const Tensor& bias) {
  Tensor y = empty({x.dim(0), w.dim(0)}, {.dtype = x.dtype(), .device = x.device()});
  const GemmSize size{x.dim(0), w.dim(0), x.dim(1), 1};
  visit_float(x.dtype(), "linear", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const Matrix<T, C> left(x.data<T>(), 0, x.stride(0), x.stride(1));
    const Matrix<T, C> right(w.data<T>(), 0, w.stride(0), w.stride(1));
    const Product<T, C> product{y.data<T>(), size.rows, size.cols,
                                bias.defined() ? bias.data<T>() : nullptr,
                                bias.defined() ? bias.stride(0) : 0};
    gemm<C>(left, right, product, size, y.device());
  });
  return y;
}

}  // namespace lathe::cuda
