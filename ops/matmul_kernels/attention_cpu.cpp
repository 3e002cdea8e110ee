// CPU kernels of attention by tiles. A tile of scores (kQueries × kKeys) is computed, used and
// overwritten, so memory grows with L + S instead of L * S. The forward pass corrects its sums
// whenever a later tile holds a larger score (online softmax); the backward pass computes each tile
// again from the scores' logsumexp. Contracts: attention.h.
// ref: Dao et al. 2022 (arXiv:2205.14135).
#include <algorithm>
#include <cmath>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/compute_alone.h"
#include "lathe/core/random/philox.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/exp_math.h"
#include "lathe/ops/matmul_kernels/attention_bf16.h"
#include "lathe/ops/matmul_kernels/attention_rows.h"
#include "lathe/ops/matmul_kernels/attention_tasks.h"
#include "lathe/ops/matmul_kernels/gemm.h"
#include "lathe/ops/reduce_kernels/reduce_fold_cpu.h"

namespace lathe {

namespace {

using attention_rows::finish_scores;
using attention_rows::kInf;
using attention_rows::rest_of_scale;
using attention_rows::scale_row;
using cpu::GemmMode;
using cpu::MatrixRef;
using reduce_fold::exp_row;
using reduce_fold::fold_lanes;
using reduce_math::Max;
using reduce_math::Sum;

// A tile of f32 scores takes 256 KiB, which the second-level cache holds.
constexpr int64_t kQueries = 128, kKeys = 512;

template <class A>
LATHE_CLONES void keep_row(A* __restrict__ s, const A* __restrict__ kept, int64_t n) {
  for (int64_t j = 0; j < n; ++j) s[j] *= kept[j];
}

/// ds = w * (dw - delta) * scale, over dw.
template <class A>
LATHE_CLONES void score_grad_row(A* __restrict__ dw, const A* __restrict__ w, A delta, A scale,
                                 int64_t n) {
  for (int64_t j = 0; j < n; ++j) dw[j] = w[j] * (dw[j] - delta) * scale;
}

/// kept[j] = factor of the weight with word first + j of the random call: 0 or `factor`.
template <class A>
LATHE_CLONES void draw_row(A* __restrict__ kept, Generator::State start, int64_t first, float p,
                           A factor, int64_t n) {
  uint32_t words[kKeys + 8];
  const int64_t counter = first / 4, ahead = first % 4;
  for (int64_t c = 0; c < ceil_div(ahead + n, int64_t{4}); ++c) {
    const uint64_t at = start.offset + static_cast<uint64_t>(counter + c);
    const Philox4x32 bits = philox4x32_10(start.seed, at, 0);
    for (int lane = 0; lane < 4; ++lane) words[4 * c + lane] = bits.v[lane];
  }
  for (int64_t j = 0; j < n; ++j) {
    kept[j] = uniform_from_bits(words[ahead + j]) < p ? A(0) : factor;
  }
}

/// The matrices of one call, and what is done to a tile of scores.
template <class A>
struct Attention {
  explicit Attention(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in,
                     const TiledAttention& how_in)
      : how(how_in),
        q(q_in.data<A>()),
        k(k_in.data<A>()),
        v(v_in.data<A>()),
        heads(q_in.dim(0)),
        group(q_in.dim(0) / k_in.dim(0)),
        L(q_in.dim(1)),
        S(k_in.dim(1)),
        D(q_in.dim(2)),
        E(v_in.dim(2)) {}

  const TiledAttention& how;
  const A *q, *k, *v;
  int64_t heads, group, L, S, D, E;

  /// Keys that the queries before `end` may see.
  int64_t keys_of(int64_t end) const { return how.causal ? std::min(S, end) : S; }
  MatrixRef<const A> queries(int64_t h, int64_t i, int64_t rows) const {
    return MatrixRef<const A>::row_major(q + (h * L + i) * D, rows, D);
  }
  MatrixRef<const A> keys(int64_t h, int64_t j, int64_t cols) const {
    return MatrixRef<const A>::row_major(k + (h / group * S + j) * D, cols, D);
  }
  MatrixRef<const A> values(int64_t h, int64_t j, int64_t cols) const {
    return MatrixRef<const A>::row_major(v + (h / group * S + j) * E, cols, E);
  }

  /// The scores of queries [i, i + rows) and keys [j, j + cols), -inf where hidden.
  void scores(A* tile, int64_t h, int64_t i, int64_t rows, int64_t j, int64_t cols) const {
    cpu::gemm(MatrixRef<A>::row_major(tile, rows, cols), queries(h, i, rows),
              keys(h, j, cols).transposed(), GemmMode::kWrite);
    for (int64_t r = 0; r < rows; ++r) finish_scores(tile + r * cols, how, h, i + r, j, cols);
  }

  void draw(A* kept, int64_t h, int64_t i, int64_t j, int64_t cols) const {
    const A factor = how.dropout < 1 ? static_cast<A>(1 / (1 - how.dropout)) : A(0);
    draw_row(kept, how.start, (h * L + i) * S + j, static_cast<float>(how.dropout), factor, cols);
  }
};

template <class A>
void forward_tile(const Attention<A>& a, A* y, A* logsumexp, int64_t h, int64_t i, int64_t rows) {
  std::vector<A> tile(static_cast<size_t>(rows * std::min(a.S, kKeys)));
  A largest[kQueries], sum[kQueries] = {}, kept[kKeys];
  std::fill(largest, largest + rows, -kInf<A>);
  const auto out = MatrixRef<A>::row_major(y + (h * a.L + i) * a.E, rows, a.E);
  const int64_t keys = a.keys_of(i + rows);
  const A scale = rest_of_scale<A>(a.how);
  for (int64_t j = 0; j < keys; j += kKeys) {
    const int64_t cols = std::min(kKeys, keys - j);
    a.scores(tile.data(), h, i, rows, j, cols);
    for (int64_t r = 0; r < rows; ++r) {
      A* s = tile.data() + r * cols;
      A now = scale * fold_lanes<Max<A>>(s, cols);
      now = now < largest[r] ? largest[r] : now;
      const A from = now == -kInf<A> ? A(0) : now;  // all hidden so far: weights of exp(-inf)
      const A added = exp_row(s, s, scale, from, cols);
      if (j > 0) {
        const A shrink = math::fast_exp(largest[r] - from);
        sum[r] *= shrink;
        scale_row(out.data + r * a.E, shrink, a.E);
      }
      sum[r] += added;
      largest[r] = now;
      if (a.how.dropout > 0) {
        a.draw(kept, h, i + r, j, cols);
        keep_row(s, kept, cols);
      }
    }
    cpu::gemm(out, MatrixRef<const A>::row_major(tile.data(), rows, cols), a.values(h, j, cols),
              j == 0 ? GemmMode::kWrite : GemmMode::kAdd);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const bool blind = sum[r] == 0 && largest[r] == -kInf<A>;
    // A row that sees nothing has weights of exp(-inf - inf) = 0 in the backward pass, too.
    logsumexp[h * a.L + i + r] = blind ? kInf<A> : largest[r] + std::log(sum[r]);
    if (blind) {
      std::fill_n(out.data + r * a.E, a.E, A(0));
    } else {
      scale_row(out.data + r * a.E, A(1) / sum[r], a.E);
    }
  }
}

/// What the backward pass reads and writes.
template <class A>
struct BackwardArrays {
  const A *dy, *y, *logsumexp;
  A *dq, *dk, *dv;
};

/// Which gradients a tile adds to: all, dq, or dk and dv.
enum class GradPart : uint8_t { kAll, kOfQueries, kOfKeys };

/// One thread's memory for the tiles of a backward pass.
template <class A>
struct BackwardTiles {
  explicit BackwardTiles(const Attention<A>& a)
      : w(static_cast<size_t>(std::min(a.L, kQueries) * std::min(a.S, kKeys))),
        dw(w.size()),
        dropped(a.how.dropout > 0 ? w.size() : 0),
        product(static_cast<size_t>(a.E)) {}

  std::vector<A> w, dw, dropped, product;
};

/// Adds what the tile of queries from i and keys from j of head h contributes. The tile of the
/// first keys writes dq.
template <class A>
void backward_tile(const Attention<A>& a, const BackwardArrays<A>& b, BackwardTiles<A>& t,
                   int64_t h, int64_t i, int64_t j, GradPart part) {
  const int64_t rows = std::min(kQueries, a.L - i), cols = std::min(kKeys, a.keys_of(i + rows) - j);
  if (cols <= 0) return;
  A kept[kKeys];
  const A scale = static_cast<A>(a.how.scale);
  const int64_t first = h * a.L + i, at = h / a.group * a.S + j;
  const auto d_out = MatrixRef<const A>::row_major(b.dy + first * a.E, rows, a.E);
  a.scores(t.w.data(), h, i, rows, j, cols);
  cpu::gemm(MatrixRef<A>::row_major(t.dw.data(), rows, cols), d_out,
            a.values(h, j, cols).transposed(), GemmMode::kWrite);
  for (int64_t r = 0; r < rows; ++r) {
    A *weights = t.w.data() + r * cols, *grads = t.dw.data() + r * cols;
    std::copy_n(b.dy + (first + r) * a.E, a.E, t.product.data());
    keep_row(t.product.data(), b.y + (first + r) * a.E, a.E);
    const A delta = fold_lanes<Sum<A>>(t.product.data(), a.E);
    exp_row(weights, weights, rest_of_scale<A>(a.how), b.logsumexp[first + r], cols);
    if (a.how.dropout > 0) {
      a.draw(kept, h, i + r, j, cols);
      A* rest = t.dropped.data() + r * cols;
      std::copy_n(weights, cols, rest);
      keep_row(rest, kept, cols);
      keep_row(grads, kept, cols);
    }
    score_grad_row(grads, weights, delta, scale, cols);
  }
  const auto d_scores = MatrixRef<const A>::row_major(t.dw.data(), rows, cols);
  if (part != GradPart::kOfKeys) {
    cpu::gemm(MatrixRef<A>::row_major(b.dq + first * a.D, rows, a.D), d_scores, a.keys(h, j, cols),
              j == 0 ? GemmMode::kWrite : GemmMode::kAdd);
  }
  if (part == GradPart::kOfQueries) return;
  const A* used = a.how.dropout > 0 ? t.dropped.data() : t.w.data();
  cpu::gemm(MatrixRef<A>::row_major(b.dv + at * a.E, cols, a.E),
            MatrixRef<const A>::row_major(used, rows, cols).transposed(), d_out, GemmMode::kAdd);
  cpu::gemm(MatrixRef<A>::row_major(b.dk + at * a.D, cols, a.D), d_scores.transposed(),
            a.queries(h, i, rows), GemmMode::kAdd);
}

/// A thread's part of the backward pass (share_out_gradients()).
template <class A>
class BackwardWorker {
 public:
  BackwardWorker(const Attention<A>& a, const BackwardArrays<A>& b) : a_(a), b_(b), tiles_(a) {}

  void add_head(int64_t m) { add(m, 0, a_.S, GradPart::kAll); }
  void add_keys(int64_t m, int64_t tile) {
    add(m, tile * kKeys, std::min(a_.S, (tile + 1) * kKeys), GradPart::kOfKeys);
  }
  void add_queries(int64_t h, int64_t tile) {
    for (int64_t j = 0; j < a_.S; j += kKeys) {
      backward_tile(a_, b_, tiles_, h, tile * kQueries, j, GradPart::kOfQueries);
    }
  }

 private:
  /// What keys [begin, end) of head m take part in.
  void add(int64_t m, int64_t begin, int64_t end, GradPart part) {
    for (int64_t h = m * a_.group; h < (m + 1) * a_.group; ++h) {
      for (int64_t i = 0; i < a_.L; i += kQueries) {
        for (int64_t j = begin; j < end; j += kKeys) backward_tile(a_, b_, tiles_, h, i, j, part);
      }
    }
  }

  const Attention<A>& a_;
  const BackwardArrays<A>& b_;
  BackwardTiles<A> tiles_;
};

template <class F>
void visit_wide(DType dtype, F&& f) {
  if (dtype == kF64) return f(TypeTag<double>{});
  f(TypeTag<float>{});
}

}  // namespace

DType cpu::attention_dtype(DType dtype, const TiledAttention& how) noexcept {
  const bool tiles = dtype == kBF16 && how.dropout == 0 && has_tile_registers();
  return tiles ? kBF16 : compute_dtype(dtype);
}

void cpu::attention_forward(const Tensor& y, const Tensor& logsumexp, const Tensor& q,
                            const Tensor& k, const Tensor& v, const TiledAttention& how) {
  if (q.dtype() == kBF16) return attention_forward_bf16(bf16_kernels(), y, logsumexp, q, k, v, how);
  visit_wide(q.dtype(), [&](auto tag) {
    using A = typename decltype(tag)::type;
    const Attention<A> a(q, k, v, how);
    const int64_t tiles = ceil_div(a.L, kQueries);
    const int64_t work = std::min(a.L, kQueries) * a.S * (a.D + a.E);
    parallel_for(a.heads * tiles, std::max<int64_t>(1, (1 << 18) / work),
                 [&](int64_t begin, int64_t end) {
                   const ComputeAlone alone;  // each thread has tiles of its own
                   for (int64_t t = begin; t < end; ++t) {
                     const int64_t i = t % tiles * kQueries;
                     forward_tile(a, y.data<A>(), logsumexp.data<A>(), t / tiles, i,
                                  std::min(kQueries, a.L - i));
                   }
                 });
  });
}

void cpu::attention_backward(const AttentionGradients& grads, const Tensor& dy, const Tensor& y,
                             const Tensor& logsumexp, const Tensor& q, const Tensor& k,
                             const Tensor& v, const TiledAttention& how) {
  if (q.dtype() == kBF16) {
    return attention_backward_bf16(bf16_kernels(), grads, dy, y, logsumexp, q, k, v, how);
  }
  visit_wide(q.dtype(), [&](auto tag) {
    using A = typename decltype(tag)::type;
    const Attention<A> a(q, k, v, how);
    const BackwardArrays<A> b{dy.data<A>(),       y.data<A>(),        logsumexp.data<A>(),
                              grads.dq.data<A>(), grads.dk.data<A>(), grads.dv.data<A>()};
    std::fill_n(b.dk, grads.dk.numel(), A(0));
    std::fill_n(b.dv, grads.dv.numel(), A(0));
    cpu::share_out_gradients({.heads = a.heads,
                              .shared = a.heads / a.group,
                              .query_tiles = ceil_div(a.L, kQueries),
                              .key_tiles = ceil_div(a.S, kKeys),
                              .work = a.group * a.L * a.S * (3 * a.D + 2 * a.E)},
                             [&] { return BackwardWorker<A>(a, b); });
  });
}

}  // namespace lathe
