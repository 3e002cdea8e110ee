// Attention by tiles: y = softmax(Q K^T / sqrt(D)) V without the L x S matrix of scores, forward
// and backward (docs/tour/11-attention.md). Q is [L,D], K and V are [S,D].
#pragma once

#include <limits>

#include "tiny/tape.h"

namespace course {

using tiny::Needs;
using tiny::Saved;
using tiny::Tensor;

struct AttentionOptions {
  int64_t tile = 64;    // rows of Q, and of K, that meet at a time
  bool causal = false;  // query i sees the keys 0 to i
};

constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// What is kept of a part of a row of scores: the largest, and the sum of exp(score - largest).
struct Part {
  double largest = kHidden;  // without a score, or if all are hidden
  double sum = 0;
};

/// The part that has the scores of both.
inline Part join(const Part& a, const Part& b) {
  const double largest = std::max(a.largest, b.largest);
  if (largest == kHidden) return {};  // else -infinity - -infinity, which is NaN
  return {largest, a.sum * std::exp(a.largest - largest) + b.sum * std::exp(b.largest - largest)};
}

/// Rows i0 to i1 - 1 and columns j0 to j1 - 1 of the scores.
struct Tile {
  int64_t i0, i1, j0, j1;
  int64_t columns() const { return j1 - j0; }
};

/// Calls f(tile) for tiles of opt.tile x opt.tile scores, row by row of tiles, each row from the
/// left. The last ones of a row and of a column may be smaller. With opt.causal it leaves out tiles
/// of which every score is hidden.
inline void for_each_tile(int64_t L, int64_t S, const AttentionOptions& opt,
                          const std::function<void(const Tile&)>& f) {
  for (int64_t i = 0; i < L; i += opt.tile) {
    const int64_t end = std::min(L, i + opt.tile);
    const int64_t seen = opt.causal ? std::min(S, end) : S;
    for (int64_t j = 0; j < seen; j += opt.tile) f({i, end, j, std::min(S, j + opt.tile)});
  }
}

/// q_i · k_j / sqrt(D) for each score of the tile, row-major. kHidden if `causal` and j > i.
inline std::vector<double> scores_of(const Tile& tile, const Tensor& q, const Tensor& k,
                                     bool causal) {
  const int64_t D = q.dim(1);
  std::vector<double> scores;
  for (int64_t i = tile.i0; i < tile.i1; ++i)
    for (int64_t j = tile.j0; j < tile.j1; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < D; ++d) dot += q.data()[i * D + d] * k.data()[j * D + d];
      scores.push_back(causal && j > i ? kHidden : dot / std::sqrt(D));
    }
  return scores;
}

/// y [L,D]. parts[i] becomes the part that is the whole of row i: the backward pass needs it.
inline Tensor attention_forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                const AttentionOptions& opt, std::vector<Part>& parts) {
  const int64_t D = q.dim(1);
  Tensor y(q.shape());
  parts.assign(q.dim(0), {});
  // So far y_i is the sum of exp(score - parts[i].largest) · v_j over the keys that were met.
  for_each_tile(q.dim(0), k.dim(0), opt, [&](const Tile& tile) {
    const std::vector<double> scores = scores_of(tile, q, k, opt.causal);
    for (int64_t i = tile.i0; i < tile.i1; ++i) {
      const double* row = scores.data() + (i - tile.i0) * tile.columns();
      Part now = parts[i];
      for (int64_t j = 0; j < tile.columns(); ++j) now = join(now, {row[j], 1});
      const double shrink = std::exp(parts[i].largest - now.largest);
      for (int64_t d = 0; d < D; ++d) y.data()[i * D + d] *= shrink;
      for (int64_t j = 0; j < tile.columns(); ++j) {
        const double weight = std::exp(row[j] - now.largest);
        for (int64_t d = 0; d < D; ++d)
          y.data()[i * D + d] += weight * v.data()[(tile.j0 + j) * D + d];
      }
      parts[i] = now;
    }
  });
  for (int64_t i = 0; i < y.numel(); ++i) y.data()[i] /= parts[i / D].sum;
  return y;
}

/// dq, dk and dv of dy, row-major. Computes the weights again, tile by tile:
///
///   w_ij  = exp(s_ij - largest_i) / sum_i     from parts[i]
///   dw_ij = dy_i · v_j                        as y_i is the sum over j of w_ij v_j
///   ds_ij = w_ij (dw_ij - dy_i · y_i)         s_ij is the score
inline std::vector<Tensor> attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k,
                                              const Tensor& v, const Tensor& y,
                                              const std::vector<Part>& parts,
                                              const AttentionOptions& opt) {
  const int64_t D = q.dim(1);
  Tensor dq(q.shape()), dk(k.shape()), dv(v.shape());
  const auto dot = [&](const Tensor& a, int64_t i, const Tensor& b, int64_t j) {
    double sum = 0;
    for (int64_t d = 0; d < D; ++d) sum += a.data()[i * D + d] * b.data()[j * D + d];
    return sum;
  };
  for_each_tile(q.dim(0), k.dim(0), opt, [&](const Tile& tile) {
    const std::vector<double> scores = scores_of(tile, q, k, opt.causal);
    for (int64_t i = tile.i0; i < tile.i1; ++i) {
      const double* row = scores.data() + (i - tile.i0) * tile.columns();
      const double mean = dot(dy, i, y, i);
      for (int64_t j = tile.j0; j < tile.j1; ++j) {
        const double w = std::exp(row[j - tile.j0] - parts[i].largest) / parts[i].sum;
        const double ds = w * (dot(dy, i, v, j) - mean) / std::sqrt(D);
        for (int64_t d = 0; d < D; ++d) {
          dq.data()[i * D + d] += ds * k.data()[j * D + d];
          dk.data()[j * D + d] += ds * q.data()[i * D + d];
          dv.data()[j * D + d] += w * dy.data()[i * D + d];
        }
      }
    }
  });
  return {dq, dk, dv};
}

/// The op. For the backward pass it keeps q, k, v, y and a Part of each row.
/// throws: ShapeError unless q is [L,D], and k and v are [S,D] with S > 0; ValueError for a tile
/// below 1.
inline Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionOptions& opt = {}) {
  tiny::check<tiny::ShapeError>(q.ndim() == 2 && k.ndim() == 2 && q.dim(1) == k.dim(1) &&
                                    k.shape() == v.shape() && k.dim(0) > 0,
                                "attention: q must be [L,D], k and v [S,D], got ", q.shape(), ", ",
                                k.shape(), " and ", v.shape());
  tiny::check<tiny::ValueError>(opt.tile > 0, "attention: tiles of ", opt.tile);
  const auto rows = [](const Tensor& x) {
    return x.is_contiguous() ? tiny::detach(x) : copy_of(x);
  };
  std::vector<Part> parts;
  const Tensor y = attention_forward(rows(q), rows(k), rows(v), opt, parts);
  return tiny::record("attention", y, {q, k, v},
                      [q = Saved(q), k = Saved(k), v = Saved(v), y = Saved(y), parts, opt, rows](
                          const Tensor& dy, const Needs&) {
                        return attention_backward(rows(dy), rows(q.get()), rows(k.get()),
                                                  rows(v.get()), y.get(), parts, opt);
                      });
}

}  // namespace course
