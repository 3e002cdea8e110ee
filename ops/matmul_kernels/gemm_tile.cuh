// The portable matrix product on the GPU: one tiled kernel for matmul and, with operands that read
// an image at shifted positions, for convolution. It uses no tensor cores; where cuBLASLt and cuDNN
// exist they are faster. For .cu files only.
//
// An operand gives the elements of a matrix as a function of its row (a column of the right factor
// counts as its row) and of the term of the sum:
//   Row row(batch, i), Term term(k)   what depends on one of the two alone, computed once
//   C load(Row, Term)                 the element
//   bool terms_first                  neighbouring terms, not neighbouring rows, are neighbours in
//                                     memory
// A result is a functor (batch, i, j, C sum) that stores one element.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "lathe/core/ceil_div.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/packet.cuh"
#include "lathe/core/tensor.h"

namespace lathe::cuda {

inline constexpr int kGemmTile = 64;   // rows and columns of a block's part of the result
inline constexpr int kGemmTerms = 16;  // terms in shared memory at a time
inline constexpr unsigned kGemmThreads = 256;

/// a * b + c; for floats rounded once.
__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
__device__ inline uint64_t multiply_add(uint64_t a, uint64_t b, uint64_t c) { return a * b + c; }

struct GemmSize {
  int64_t rows, cols, terms, batch;
  bool rows_inside = false;  // neighbouring rows of the result are neighbours in memory
};

/// How the terms are divided: a separate block computes each part of a sum.
struct GemmSplit {
  int64_t terms;  // of each part
  int parts;
};

/// Which four elements of a 64 x 16 tile a thread loads, chosen so that the lanes of a warp read
/// neighbours in memory.
struct GemmSlots {
  int row, row_step, term, term_step;
  __device__ explicit GemmSlots(bool terms_first)
      : row(static_cast<int>(terms_first ? threadIdx.x / kGemmTerms : threadIdx.x % kGemmTile)),
        row_step(terms_first ? kGemmTile / 4 : 0),
        term(static_cast<int>(terms_first ? threadIdx.x % kGemmTerms : threadIdx.x / kGemmTile)),
        term_step(terms_first ? 0 : kGemmTerms / 4) {}
};

/// Loads the tiles of one operand.
template <class C, class Operand>
class GemmLoader {
 public:
  __device__ GemmLoader(const Operand& operand, int64_t batch, int64_t first_row, int64_t rows)
      : operand_(operand), slots_(operand.terms_first) {
    for (int s = 0; s < 4; ++s) {
      const int64_t i = first_row + slots_.row + s * slots_.row_step;
      inside_[s] = i < rows;
      row_[s] = operand_.row(batch, i < rows ? i : rows - 1);
    }
  }

  /// tile[term][row] = the elements of terms first to first + 15, zeros from `end` on.
  __device__ void load(Packet<C, 4> (*tile)[kGemmTile / 4 + 1], int64_t first, int64_t end) const {
    for (int s = 0; s < 4; ++s) {
      const int row = slots_.row + s * slots_.row_step, term = slots_.term + s * slots_.term_step;
      const bool valid = inside_[s] && first + term < end;
      tile[term][row / 4].v[row % 4] =
          valid ? operand_.load(row_[s], operand_.term(first + term)) : C(0);
    }
  }

 private:
  const Operand& operand_;
  GemmSlots slots_;
  typename Operand::Row row_[4];
  bool inside_[4];
};

// result(i, j) = the sum over k of a(i, k) * b(j, k). A block computes 64 x 64 elements, 4 x 4 in
// each thread's registers, from tiles of 16 terms in shared memory: 16 multiplications for two
// 16-byte reads. blockIdx: x is the tile, y the part of the terms, z the batch (a loop over batches
// would keep too much in registers). With several parts each block stores its sums in `parts`,
// which gemm_join_kernel adds up in order. Bound by arithmetic: meant to reach half of the peak of
// the plain f32 units for large products.
template <class C, class A, class B, class Result>
__global__ void __launch_bounds__(kGemmThreads)
    gemm_kernel(A a, B b, Result result, GemmSize size, GemmSplit split, C* parts,
                int64_t first_batch) {
  using Tile = Packet<C, 4>[kGemmTerms][kGemmTile / 4 + 1];
  LATHE_SHARED(Tile, left);
  LATHE_SHARED(Tile, right);
  const int64_t col_tiles = ceil_div(size.cols, kGemmTile);
  const int64_t first_row = blockIdx.x / col_tiles * kGemmTile;
  const int64_t first_col = blockIdx.x % col_tiles * kGemmTile;
  const int64_t begin = blockIdx.y * split.terms;
  const int64_t end = begin + split.terms < size.terms ? begin + split.terms : size.terms;
  const auto inside = static_cast<int>(threadIdx.x % 16),
             outside = static_cast<int>(threadIdx.x / 16);
  const int row_quad = size.rows_inside ? inside : outside;
  const int col_quad = size.rows_inside ? outside : inside;

  const int64_t batch = first_batch + blockIdx.z;
  const GemmLoader<C, A> load_left(a, batch, first_row, size.rows);
  const GemmLoader<C, B> load_right(b, batch, first_col, size.cols);
  // Threads beyond the edge only load.
  const bool needed = first_row + row_quad * 4 < size.rows && first_col + col_quad * 4 < size.cols;
  C sum[4][4] = {};
  for (int64_t k = begin; k < end; k += kGemmTerms) {
    load_left.load(left, k, end);
    load_right.load(right, k, end);
    __syncthreads();
    const int left_terms = end - k < kGemmTerms ? static_cast<int>(end - k) : kGemmTerms;
    const int terms = needed ? left_terms : 0;
    for (int term = 0; term < terms; ++term) {
      const Packet<C, 4> x = left[term][row_quad], y = right[term][col_quad];
      for (int r = 0; r < 4; ++r) {
        for (int c = 0; c < 4; ++c) sum[r][c] = multiply_add(x.v[r], y.v[c], sum[r][c]);
      }
    }
    __syncthreads();
  }
  if (!needed) return;
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 4; ++c) {
      const int64_t i = first_row + row_quad * 4 + r, j = first_col + col_quad * 4 + c;
      if (i >= size.rows || j >= size.cols) continue;
      if (parts == nullptr) {
        result(batch, i, j, sum[r][c]);
      } else {
        parts[((blockIdx.y * size.batch + batch) * size.rows + i) * size.cols + j] = sum[r][c];
      }
    }
  }
}

// The parts of every sum, added up in order. One thread per element; sizeof(C) bytes per part.
template <class C, class Result>
__global__ void gemm_join_kernel(Result result, const C* __restrict__ parts, GemmSize size,
                                 int count) {
  const int64_t n = size.batch * size.rows * size.cols, step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t e = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; e < n; e += step) {
    C sum = parts[e];
    for (int p = 1; p < count; ++p) sum += parts[p * n + e];
    const int64_t i = e / size.cols;
    result(i / size.rows, i % size.rows, e % size.cols, sum);
  }
}

/// How to split the terms. It depends on the sizes alone, so that the same product always has the
/// same bits: two blocks for each multiprocessor of an H200, if each then has at least 256 terms.
inline GemmSplit split_of(const GemmSize& size, int64_t tiles) {
  constexpr int64_t kWantedBlocks = 2 * 132, kLeastTerms = 256;
  const int64_t parts = std::clamp<int64_t>(kWantedBlocks / (tiles * size.batch), 1,
                                            std::max<int64_t>(size.terms / kLeastTerms, 1));
  const int64_t terms = std::max<int64_t>(ceil_div(size.terms, parts), 1);
  const int64_t whole = round_up(terms, kGemmTerms);
  return {whole, static_cast<int>(std::max<int64_t>(ceil_div(size.terms, whole), 1))};
}

/// Queues the product on the device's current stream. With no terms the sums are 0.
template <class C, class A, class B, class Result>
void gemm(const A& a, const B& b, const Result& result, const GemmSize& size, Device device) {
  if (size.rows * size.cols * size.batch == 0) return;
  const auto tiles_along = [](int64_t n) { return ceil_div(n, kGemmTile); };
  const int64_t tiles = tiles_along(size.rows) * tiles_along(size.cols);
  LATHE_CHECK(ValueError, tiles < (int64_t{1} << 31), "matrix product: ", size.rows, " x ",
              size.cols, " elements are too many");
  const GemmSplit split = split_of(size, tiles);
  const Stream stream = current_stream(device);
  Tensor memory;
  C* parts = nullptr;
  if (split.parts > 1) {
    const int64_t count = split.parts * size.batch * size.rows * size.cols;
    memory = empty({count * static_cast<int64_t>(sizeof(C))}, {.dtype = kU8, .device = device});
    parts = static_cast<C*>(memory.raw_data());
  }
  constexpr int64_t kMostBatches = 65535;  // the limit of blockIdx.z
  for (int64_t first = 0; first < size.batch; first += kMostBatches) {
    const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(split.parts),
                    static_cast<unsigned>(std::min(size.batch - first, kMostBatches)));
    launch(gemm_kernel<C, A, B, Result>, grid, dim3(kGemmThreads), 0, stream, a, b, result, size,
           split, parts, first);
    LATHE_CUDA_CHECK(cudaGetLastError());
  }
  if (parts == nullptr) return;
  const auto [join_grid, block] = launch_1d(size.batch * size.rows * size.cols);
  launch(gemm_join_kernel<C, Result>, join_grid, block, 0, stream, result, parts, size,
         split.parts);
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace lathe::cuda
