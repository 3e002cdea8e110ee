// CPU kernels of batch normalisation, forward: statistics in one pass over memory, then one pass
// for y. Contracts: batch_norm.h.
//
// Each tile's mean and squared deviations are computed while it is in the cache: two passes there,
// but only one over memory. The tiles are merged in f64, in order (Chan et al.).
#include <algorithm>
#include <cmath>

#include "lathe/core/visit.h"
#include "lathe/ops/batch_norm_kernels/batch_norm_math.h"
#include "lathe/ops/batch_norm_kernels/batch_norm_tiles_cpu.h"

namespace lathe::cpu {

namespace {

/// A part of n values joins the `before` earlier ones: mean += d * share,
/// m2 += m2_part + d^2 * weight, where share = n / (before + n) and weight = before * share.
template <class S>
LATHE_CLONES void merge_part(double* __restrict__ mean, double* __restrict__ m2,
                             const S* __restrict__ part_mean, const S* __restrict__ part_m2,
                             int64_t channels, double share, double weight) {
  for (int64_t k = 0; k < channels; ++k) {
    const double d = part_mean[k] - mean[k];
    mean[k] += d * share;
    m2[k] += part_m2[k] + d * d * weight;
  }
}

/// Mean and variance of the channels [begin, end) from those of the parts, [parts, C].
template <class S>
void merge(const Tiles& tiles, const S* means, const S* squares, const BatchNormStats& out,
           int64_t begin, int64_t end) {
  const int64_t channels = end - begin;
  std::vector<double> mean(static_cast<size_t>(channels)), m2(mean.size());
  double total = 0;
  for (int64_t part = 0; part < tiles.parts(); ++part) {
    const double n = static_cast<double>(tiles.part_size(part)), before = total;
    total += n;
    const double share = n / total;
    const int64_t at = part * tiles.channels() + begin;
    merge_part(mean.data(), m2.data(), means + at, squares + at, channels, share, before * share);
  }
  for (int64_t k = 0; k < channels; ++k) {
    out.mean.data<S>()[begin + k] = static_cast<S>(mean[k]);
    out.var.data<S>()[begin + k] = static_cast<S>(total > 0 ? m2[k] / total : 0);
  }
}

template <class T, class S>
void stats(const BatchNormStats& out, const Tensor& x) {
  const Tiles tiles(x);
  const int64_t c = tiles.channels(), columns = c * tiles.repeat();
  const Tensor all_means = part_numbers<S>(tiles), all_squares = part_numbers<S>(tiles);
  S *const means = all_means.data<S>(), *const squares = all_squares.data<S>();  // deviations
  parallel_for(tiles.count(), 1, [&](int64_t begin, int64_t end) {
    TileBuffer<T> buffer(kTile + columns);
    std::vector<S> sum(static_cast<size_t>(columns)), mean(static_cast<size_t>(columns));
    for (int64_t i = begin; i < end; ++i) {
      const Tile tile = tiles[i];
      const auto* values = buffer.load(at<T>(x, tile), tile.size);
      const int64_t shown = tiles.interleaved() ? c : tile.shape.rows;
      const S scale = S(1) / static_cast<S>(tiles.part_size(tile.part));
      const size_t to = static_cast<size_t>(tile.part * c + tile.channel);

      std::fill(sum.begin(), sum.end(), S(0));
      for_parts(tile, [&](const TileShape& shape, int64_t start) {
        Loops<T>::sums(shape, sum.data(), values + start);
      });
      fold_repeats(tiles, sum.data());
      for (int64_t k = 0; k < shown; ++k) means[to + k] = sum[k] * scale;
      for (int64_t from = 0; from < shown * tiles.repeat(); from += shown) {
        for (int64_t k = 0; k < shown; ++k) mean[from + k] = means[to + k];
      }

      std::fill(sum.begin(), sum.end(), S(0));
      for_parts(tile, [&](const TileShape& shape, int64_t start) {
        Loops<T>::squares(shape, sum.data(), values + start, mean.data());
      });
      fold_repeats(tiles, sum.data());
      for (int64_t k = 0; k < shown; ++k) squares[to + k] = sum[k];
    }
  });
  for_channels(tiles,
               [&](int64_t begin, int64_t end) { merge(tiles, means, squares, out, begin, end); });
}

template <class T, class S>
void forward(const Tensor& y, const BatchNormCall& call, const Tensor& residual) {
  const Tiles tiles(call.x);
  const ApplyParams<S> params(tiles, call);
  for_tiles(tiles, [&](const Tile& tile) {
    TileBuffer<T> x_buffer(tile.size), y_buffer(tile.size);
    TileBuffer<T> residual_buffer(residual.defined() ? tile.size : 0);
    const auto* x = x_buffer.load(at<T>(call.x, tile), tile.size);
    const auto* add = residual_buffer.load(at<T>(residual, tile), tile.size);
    auto* to = y_buffer.target(at<T>(y, tile));
    for_parts(tile, [&](const TileShape& shape, int64_t start) {
      Loops<T>::apply(shape, call.form, to + start, x + start, add == nullptr ? add : add + start,
                      params.from(tile.channel));
    });
    y_buffer.store(at<T>(y, tile), tile.size);
  });
}

}  // namespace

BatchNormStats batch_norm_stats(const Tensor& x, double eps) {
  BatchNormStats out{empty({x.dim(1)}, {.dtype = compute_dtype(x.dtype())}),
                     empty({x.dim(1)}, {.dtype = compute_dtype(x.dtype())}),
                     {}};
  visit_float(x.dtype(), "batch_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    stats<T, ComputeType<T>>(out, x);
  });
  out.invstd = batch_norm_invstd(out.var, eps);
  return out;
}

void batch_norm_update_(const BatchNormRunning& running, const BatchNormStats& batch,
                        int64_t count) {
  const double momentum = running.momentum;
  const double unbias = static_cast<double>(count) / static_cast<double>(count - 1);
  visit_float(batch.mean.dtype(), "batch_norm", [&](auto tag) {
    using S = typename decltype(tag)::type;
    const auto blend = [&](const Tensor& old, const Tensor& values, double factor) {
      S* to = old.data<S>();
      for (int64_t i = 0; i < values.numel(); ++i, to += old.stride(0)) {
        *to = static_cast<S>((1 - momentum) * *to + momentum * factor * values.data<S>()[i]);
      }
    };
    blend(running.mean, batch.mean, 1);
    blend(running.var, batch.var, unbias);
  });
  if (running.num_batches.defined()) ++*running.num_batches.data<int64_t>();
}

/// As batch_norm_stats, of mean and variance [2,C].
static BatchNormStats stats_of_moments(const Tensor& moments, double eps) {
  const int64_t channels = moments.dim(1);
  BatchNormStats out{alias(moments, {channels}, {1}, moments.offset()),
                     alias(moments, {channels}, {1}, moments.offset() + channels),
                     {}};
  out.invstd = batch_norm_invstd(out.var, eps);
  return out;
}

BatchNormStats batch_norm_stats(const BatchNormCall& call, double eps) {
  return call.sums.defined() ? stats_of_moments(call.sums, eps) : batch_norm_stats(call.x, eps);
}

Tensor batch_norm_train(BatchNormCall& call, const Tensor& residual, double eps,
                        const BatchNormRunning& running) {
  const BatchNormStats batch = batch_norm_stats(call, eps);
  call.mean = batch.mean;
  call.invstd = batch.invstd;
  Tensor y = batch_norm_forward(call, residual);
  const int64_t channels = call.x.dim(1);
  if (running.mean.defined() && channels > 0) {
    batch_norm_update_(running, batch, call.x.numel() / channels);
  }
  return y;
}

Tensor batch_norm_invstd(const Tensor& var, double eps) {
  Tensor out = empty(var.shape(), {.dtype = var.dtype()});
  visit_float(var.dtype(), "batch_norm", [&](auto tag) {
    using S = typename decltype(tag)::type;
    for (int64_t i = 0; i < var.numel(); ++i) {
      out.data<S>()[i] = math::batch_norm_invstd(var.data<S>()[i * var.stride(0)], eps);
    }
  });
  return out;
}

Tensor batch_norm_forward(const BatchNormCall& call, const Tensor& residual) {
  Tensor y = empty_like(call.x);
  visit_float(call.x.dtype(), "batch_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    forward<T, ComputeType<T>>(y, call, residual);
  });
  return y;
}

}  // namespace lathe::cpu
