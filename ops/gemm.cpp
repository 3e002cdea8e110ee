// Sharing out matrix products. Contracts: gemm.h.
#include "lathe/ops/gemm.h"

#include <algorithm>
#include <type_traits>

#include "lathe/core/thread_pool.h"
#include "lathe/ops/gemm_kernel.h"

namespace lathe::cpu {

namespace {

const GemmKernels& kernels() {
  static const GemmKernels best = best_gemm_kernels();
  return best;
}

template <class T>
bool is_row_major(const MatrixRef<T>& m) {
  return m.col_step == 1 || m.cols == 1;
}

// Products with fewer multiplications than this take less time than waking a thread.
constexpr int64_t kSerialWork = 1 << 17;

}  // namespace

template <class T>
void gemm_serial(const MatrixRef<T>& c, const MatrixRef<const T>& a, const MatrixRef<const T>& b,
                 GemmMode mode) {
  if (!is_row_major(c)) return gemm_serial(c.transposed(), b.transposed(), a.transposed(), mode);
  if constexpr (std::is_same_v<T, float>) {
    kernels().f32(c, a, b, mode);
  } else {
    kernels().f64(c, a, b, mode);
  }
}

template <class T>
void gemm_by_rows(const MatrixRef<T>& c, const MatrixRef<const T>& a, const MatrixRef<const T>& b,
                  GemmMode mode) {
  // At most 16 blocks, of a multiple of 16 rows: Eigen packs b anew for each.
  const int64_t block = std::max<int64_t>(16, (c.rows + 255) / 256 * 16);
  parallel_for(c.rows, block, [&](int64_t first, int64_t last) {
    gemm_serial(c.middle_rows(first, last - first), a.middle_rows(first, last - first), b, mode);
  });
}

template <class T>
void gemm(const MatrixRef<T>& c, const MatrixRef<const T>& a, const MatrixRef<const T>& b,
          GemmMode mode) {
  if (!is_row_major(c)) return gemm(c.transposed(), b.transposed(), a.transposed(), mode);
  if (c.rows * c.cols * a.cols < kSerialWork) return gemm_serial(c, a, b, mode);
  if constexpr (std::is_same_v<T, float>) {
    fast_gemm(c, a, b, mode);
  } else {
    gemm_by_rows(c, a, b, mode);
  }
}

#define LATHE_GEMM(T)                                                                           \
  template void gemm_serial(const MatrixRef<T>&, const MatrixRef<const T>&,                     \
                            const MatrixRef<const T>&, GemmMode);                               \
  template void gemm_by_rows(const MatrixRef<T>&, const MatrixRef<const T>&,                    \
                             const MatrixRef<const T>&, GemmMode);                              \
  template void gemm(const MatrixRef<T>&, const MatrixRef<const T>&, const MatrixRef<const T>&, \
                     GemmMode)
LATHE_GEMM(float);
LATHE_GEMM(double);
#undef LATHE_GEMM

}  // namespace lathe::cpu
