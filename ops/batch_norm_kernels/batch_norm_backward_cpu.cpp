// CPU kernels of batch normalisation, backward: one pass for the sums per channel, one pass for dx.
// Contracts: batch_norm.h.
#include <algorithm>

#include "lathe/core/visit.h"
#include "lathe/ops/batch_norm_kernels/batch_norm_tiles_cpu.h"

namespace lathe::cpu {

namespace {

/// Sums of g and of g * t, [C] each.
struct GradSums {
  std::vector<double> g, gt;
};

template <class S>
LATHE_CLONES void add_part(double* __restrict__ total, const S* __restrict__ part,
                           int64_t channels) {
  for (int64_t k = 0; k < channels; ++k) total[k] += part[k];
}

/// Pass 1 of the gradient: of dy, or of dy + second. It also writes g to `g_out` if that is
/// defined, as it is with `second`; it may be one of these two.
template <class T, class S>
GradSums grad_sums(const BatchNormCall& call, const Tensor& dy, const Tensor& second,
                   const Tensor& y, const Tensor& g_out) {
  const Tiles tiles(call.x);
  const ApplyParams<S> params(tiles, call);
  const int64_t c = tiles.channels(), columns = c * tiles.repeat();
  const Tensor all_g = part_numbers<S>(tiles), all_gt = part_numbers<S>(tiles);
  S *const part_g = all_g.data<S>(), *const part_gt = all_gt.data<S>();
  parallel_for(tiles.count(), 1, [&](int64_t begin, int64_t end) {
    const int64_t room = kTile + columns;
    TileBuffer<T> x_buffer(room), dy_buffer(room), y_buffer(y.defined() ? room : 0),
        second_buffer(second.defined() ? room : 0), g_buffer(g_out.defined() ? room : 0);
    std::vector<S> sum_g(static_cast<size_t>(columns)), sum_gt(sum_g.size());
    for (int64_t i = begin; i < end; ++i) {
      const Tile tile = tiles[i];
      const auto* x = x_buffer.load(at<T>(call.x, tile), tile.size);
      const auto* d = dy_buffer.load(at<T>(dy, tile), tile.size);
      const auto* more = second_buffer.load(at<T>(second, tile), tile.size);
      const auto* mask = y_buffer.load(at<T>(y, tile), tile.size);
      auto* g = g_buffer.target(at<T>(g_out, tile));
      std::fill(sum_g.begin(), sum_g.end(), S(0));
      std::fill(sum_gt.begin(), sum_gt.end(), S(0));
      for_parts(tile, [&](const TileShape& shape, int64_t start) {
        const auto* rows_of_y = mask == nullptr ? mask : mask + start;
        if (g == nullptr) {
          Loops<T>::grad_sums(shape, call.form, sum_g.data(), sum_gt.data(), d + start, x + start,
                              rows_of_y, params.from(tile.channel));
        } else {
          Loops<T>::grad_sums_kept(shape, call.form, sum_g.data(), sum_gt.data(), g + start,
                                   d + start, more == nullptr ? more : more + start, x + start,
                                   rows_of_y, params.from(tile.channel));
        }
      });
      g_buffer.store(at<T>(g_out, tile), tile.size);
      fold_repeats(tiles, sum_g.data());
      fold_repeats(tiles, sum_gt.data());
      const int64_t shown = tiles.interleaved() ? c : tile.shape.rows;
      const int64_t to = tile.part * c + tile.channel;
      std::copy_n(sum_g.begin(), shown, part_g + to);
      std::copy_n(sum_gt.begin(), shown, part_gt + to);
    }
  });
  GradSums total{std::vector<double>(static_cast<size_t>(c)),
                 std::vector<double>(static_cast<size_t>(c))};
  for_channels(tiles, [&](int64_t begin, int64_t end) {
    for (int64_t part = 0; part < tiles.parts(); ++part) {
      const int64_t at = part * c + begin;
      add_part(total.g.data() + begin, part_g + at, end - begin);
      add_part(total.gt.data() + begin, part_gt + at, end - begin);
    }
  });
  return total;
}

/// Pass 2: dx = scale * g - slope * t - offset.
template <class T, class S>
void grad_input(const Tensor& dx, BatchNormForm form, const BatchNormCall& call, const Tensor& dy,
                const Tensor& y, const GradSums& sums) {
  const Tiles tiles(call.x);
  ApplyParams<S> params(tiles, call);
  const int64_t c = tiles.channels();
  std::vector<S> slope(params.mean.size()), offset(params.mean.size());
  if (call.batch_stats) {
    const int64_t count = call.x.numel() / std::max<int64_t>(c, 1);
    const double m = static_cast<double>(count);
    const S* invstd = call.invstd.data<S>();
    for (size_t i = 0; i < slope.size(); ++i) {
      const size_t k = i % static_cast<size_t>(c);
      const double s = invstd[k], scale = params.scale[i];
      slope[i] = static_cast<S>(scale * s * s * sums.gt[k] / m);
      offset[i] = static_cast<S>(scale * sums.g[k] / m);
    }
  }
  for_tiles(tiles, [&](const Tile& tile) {
    TileBuffer<T> x_buffer(tile.size), dy_buffer(tile.size), dx_buffer(tile.size);
    TileBuffer<T> y_buffer(y.defined() ? tile.size : 0);
    TileParams<S> p = params.from(tile.channel);
    p.slope = slope.data() + tile.channel;
    p.offset = offset.data() + tile.channel;
    const auto* x = x_buffer.load(at<T>(call.x, tile), tile.size);
    const auto* d = dy_buffer.load(at<T>(dy, tile), tile.size);
    const auto* mask = y_buffer.load(at<T>(y, tile), tile.size);
    auto* to = dx_buffer.target(at<T>(dx, tile));
    for_parts(tile, [&](const TileShape& shape, int64_t start) {
      Loops<T>::grad_input(shape, form, to + start, d + start, x + start,
                           mask == nullptr ? mask : mask + start, p);
    });
    dx_buffer.store(at<T>(dx, tile), tile.size);
  });
}

/// [C] numbers as a tensor of the parameters' dtype.
template <class S>
Tensor as_tensor(const std::vector<double>& values) {
  Tensor out = empty({static_cast<int64_t>(values.size())}, {.dtype = dtype_of<S>});
  std::transform(values.begin(), values.end(), out.data<S>(),
                 [](double v) { return static_cast<S>(v); });
  return out;
}

template <class T, class S>
void backward(BatchNormGrads& grads, const BatchNormCall& call, const Tensor& dy, const Tensor& y) {
  const auto place = [&](const Tensor& t, bool is_free) {
    return is_free ? t : empty_like(call.x);
  };
  const Tensor& second = grads.second_dy;
  Tensor g;
  if (grads.want_residual || second.defined()) g = place(dy, grads.dy_is_free);
  GradSums sums;
  if (grads.want_params || g.defined() || (grads.want_x && call.batch_stats)) {
    sums = grad_sums<T, S>(call, dy, second, y, g);
  }
  if (grads.want_x && g.defined()) {  // g is in memory, so no mask is needed any more
    grads.dx = !grads.want_residual ? g : place(second, second.defined() && grads.second_is_free);
    grad_input<T, S>(grads.dx, BatchNormForm::kPlain, call, g, Tensor(), sums);
  } else if (grads.want_x) {
    grads.dx = place(dy, grads.dy_is_free);
    grad_input<T, S>(grads.dx, call.form, call, dy, y, sums);
  }
  if (grads.want_residual) grads.dresidual = g;
  if (grads.want_params) {
    grads.dbias = as_tensor<S>(sums.g);
    for (size_t k = 0; k < sums.gt.size(); ++k) sums.gt[k] *= call.invstd.data<S>()[k];
    grads.dweight = as_tensor<S>(sums.gt);
  }
}

}  // namespace

void batch_norm_backward(BatchNormGrads& grads, const BatchNormCall& call, const Tensor& dy,
                         const Tensor& y) {
  visit_float(call.x.dtype(), "batch_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    backward<T, ComputeType<T>>(grads, call, dy, y);
  });
}

}  // namespace lathe::cpu
