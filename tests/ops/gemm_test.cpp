// gemm: every storage order, both modes, sizes below and above the threads' threshold, against
// three loops.
#include "lathe/ops/matmul_kernels/gemm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace lathe::cpu;

namespace {

struct Sizes {
  int64_t m, n, k;
};

/// A matrix of fixed numbers in a buffer that is wider than it: leading dimensions are not the
/// sizes.
template <class T>
struct Matrix {
  Matrix(int64_t rows, int64_t cols, bool row_major, uint32_t seed)
      : values(static_cast<size_t>((rows + 3) * (cols + 3))),
        ref{values.data(), rows, cols, row_major ? cols + 3 : 1, row_major ? 1 : rows + 3} {
    for (T& value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<T>(seed >> 8) / T(1 << 24) - T(0.5);
    }
  }
  T& at(int64_t i, int64_t j) {
    return values[static_cast<size_t>(i * ref.row_step + j * ref.col_step)];
  }
  MatrixRef<const T> read() const {
    return {ref.data, ref.rows, ref.cols, ref.row_step, ref.col_step};
  }

  std::vector<T> values;
  MatrixRef<T> ref;
};

/// The largest error of c = a*b (or c += a*b) for all eight storage orders.
template <class T, class Gemm>
double worst_error(const Sizes& s, GemmMode mode, Gemm&& run) {
  double worst = 0;
  for (int orders = 0; orders < 8; ++orders) {
    Matrix<T> c(s.m, s.n, (orders & 1) == 0, 1), a(s.m, s.k, (orders & 2) == 0, 2),
        b(s.k, s.n, (orders & 4) == 0, 3);
    Matrix<T> expected = c;
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = mode == GemmMode::kAdd ? static_cast<double>(c.at(i, j)) : 0;
        for (int64_t k = 0; k < s.k; ++k) {
          sum += static_cast<double>(a.at(i, k)) * static_cast<double>(b.at(k, j));
        }
        expected.at(i, j) = static_cast<T>(sum);
      }
    run(c.ref, a.read(), b.read(), mode);
    for (size_t i = 0; i < c.values.size(); ++i) {  // the margin must be untouched as well
      worst = std::max(worst, static_cast<double>(std::abs(c.values[i] - expected.values[i])));
    }
  }
  return worst;
}

const Sizes kSizes[] = {{1, 40, 50}, {50, 1, 40}, {5, 6, 7},    {1, 1, 1},    {1, 7, 5},
                        {9, 1, 4},   {3, 5, 1},   {17, 33, 19}, {64, 70, 65}, {130, 40, 90}};

template <class T>
void check_gemm(double tolerance) {
  for (const Sizes& s : kSizes) {
    for (const GemmMode mode : {GemmMode::kWrite, GemmMode::kAdd}) {
      CAPTURE(s.m);
      CAPTURE(s.n);
      CAPTURE(s.k);
      CHECK(worst_error<T>(s, mode, gemm<T>) <= tolerance);
      CHECK(worst_error<T>(s, mode, gemm_serial<T>) <= tolerance);
      CHECK(worst_error<T>(s, mode, [](const auto& c, const auto& a, const auto& b, GemmMode m) {
              if (c.col_step == 1) return gemm_by_rows<T>(c, a, b, m);
              gemm_by_rows<T>(c.transposed(), b.transposed(), a.transposed(), m);
            }) <= tolerance);
    }
  }
}

}  // namespace

TEST_CASE("gemm: f32 agrees with three loops in every storage order") { check_gemm<float>(1e-5); }
TEST_CASE("gemm: f64 agrees with three loops in every storage order") { check_gemm<double>(1e-13); }

TEST_CASE("gemm_serial: the same numbers give the same bits at any address") {
  for (const Sizes& s : kSizes) {
    std::vector<double> first;
    for (int64_t shift = 0; shift < 4; ++shift) {  // in elements: every offset in a 32-byte vector
      Matrix<double> a(s.m, s.k, true, 2), b(s.k, s.n, false, 3), c(s.m, s.n, true, 1);
      std::vector<double> moved_a(a.values.size() + 4), moved_b(b.values.size() + 4);
      std::copy(a.values.begin(), a.values.end(), moved_a.begin() + shift);
      std::copy(b.values.begin(), b.values.end(), moved_b.begin() + shift);
      MatrixRef<const double> left = a.read(), right = b.read();
      left.data = moved_a.data() + shift;
      right.data = moved_b.data() + shift;
      gemm_serial(c.ref, left, right, GemmMode::kWrite);
      if (shift == 0) first = c.values;
      CHECK(c.values == first);
    }
  }
}
