// Large f32 matrix products by oneDNN's dnnl_sgemm. Contract: gemm.h.
#include "lathe/ops/matmul_kernels/gemm.h"
#include "lathe/ops/onednn/onednn.h"

namespace lathe::cpu {

namespace {

// OpenMP's threads sleep between products. Fewer multiplications than these take less time than it
// takes to wake them.
constexpr int64_t kWorthWaking = 2'500'000;

struct Operand {
  char transpose;
  int64_t leading;
};

Operand operand(const MatrixRef<const float>& m) {
  // A matrix with one row or column may have any step along it, since no second element is read.
  if (m.col_step == 1 || m.cols == 1) return {'N', m.rows == 1 ? m.cols : m.row_step};
  return {'T', m.cols == 1 ? m.rows : m.col_step};
}

}  // namespace

void fast_gemm(const MatrixRef<float>& c, const MatrixRef<const float>& a,
               const MatrixRef<const float>& b, GemmMode mode) {
  const OmpThreads threads(c.rows * c.cols * a.cols < kWorthWaking ? 1 : dnnl_threads());
  const Operand left = operand(a), right = operand(b);
  const float beta = mode == GemmMode::kAdd ? 1.f : 0.f;
  translate_dnnl_errors("matmul", [&] {
    const dnnl_status_t status = dnnl_sgemm(left.transpose, right.transpose, c.rows, c.cols, a.cols,
                                            1.f, a.data, left.leading, b.data, right.leading, beta,
                                            c.data, c.rows == 1 ? c.cols : c.row_step);
    dnnl::error::wrap_c_api(status, "dnnl_sgemm");
  });
}

}  // namespace lathe::cpu
