// Convolution as matrix products over patches, for f32 and f64. Contracts: conv2d_im2col_cpu.h.
// All is computed in NHWC order, where a patch [R,S,C] is R*S runs of channels and an output pixel
// is one row:
//   forward          y[pixels, K] = patches[pixels, RSC] * w[K, RSC]^T
//   backward_input   patches[pixels, RSC] = dy[pixels, K] * w[K, RSC], each value then added to dx
//                    where forward gathers it from x
//   backward_weight  dw[K, RSC] = dy[pixels, K]^T * patches[pixels, RSC]
// ref: Chellapilla, Puri, Simard 2006, "High Performance Convolutional Neural Networks for Document
// Processing".
#include <algorithm>
#include <cstring>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/copy.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/conv/cpu/conv2d_im2col_cpu.h"
#include "lathe/ops/matmul_kernels/gemm.h"

namespace lathe::cpu {

namespace {

/// t in NHWC order: itself, or a copy, whose values are undefined unless `copied`.
Tensor channels_last(const Tensor& t, bool copied) {
  if (t.is_contiguous(kChannelsLast)) return t;
  Tensor other = empty_strided(t.shape(), channels_last_strides(t.shape()), t.dtype(), kCPU);
  if (copied) copy_values(other, t);
  return other;
}

void write_back(const Tensor& out, const Tensor& computed) {
  if (!out.is_same(computed)) copy_values(out, computed);
}

/// What is computed at once: rows first … last-1 of one image's output pixels, for one group of
/// channels.
struct Tile {
  int64_t image, first, last, group;
};

template <class T>
class Im2col {
 public:
  explicit Im2col(const Conv2dGeometry& g) : g_(g) {}

  int64_t group_c() const { return g_.C / g_.groups; }
  int64_t group_k() const { return g_.K / g_.groups; }
  int64_t pixels(const Tile& t) const { return (t.last - t.first) * g_.Q; }
  /// True for 1x1 with stride 1, where the input's pixels are the patches.
  bool is_pointwise() const {
    return g_.taps() == group_c() && g_.stride == Pair(1) && g_.pad == Pair(0);
  }

  /// The patches of a tile as a matrix: in place if the input already is one, else gathered into
  /// `buffer`.
  MatrixRef<const T> patches(const Tile& t, const T* x, std::vector<T>& buffer) const {
    if (is_pointwise()) {
      const T* start = x + (t.image * g_.H + t.first) * g_.W * g_.C + t.group * group_c();
      return {start, pixels(t), group_c(), g_.C, 1};
    }
    buffer.resize(static_cast<size_t>(pixels(t) * g_.taps()));
    T* patch = buffer.data();
    for_each_run(t, [&](int64_t at) {
      if (at < 0) {
        std::fill_n(patch, group_c(), T(0));
      } else {
        std::copy_n(x + at, group_c(), patch);
      }
      patch += group_c();
    });
    return MatrixRef<const T>::row_major(buffer.data(), pixels(t), g_.taps());
  }

  /// dx += patches: each value is added where patches() gathers it from.
  void scatter(const Tile& t, T* dx, const T* patch) const {
    for_each_run(t, [&](int64_t at) {
      if (at >= 0) {
        for (int64_t c = 0; c < group_c(); ++c) dx[at + c] += patch[c];
      }
      patch += group_c();
    });
  }

  MatrixRef<const T> rows_of(const Tile& t, const T* y) const {
    return {y + y_offset(t), pixels(t), group_k(), g_.K, 1};
  }
  MatrixRef<T> rows_of(const Tile& t, T* y) const {
    return {y + y_offset(t), pixels(t), group_k(), g_.K, 1};
  }
  template <class U>
  MatrixRef<U> weights(const Tile& t, U* w) const {
    return MatrixRef<U>::row_major(w + t.group * group_k() * g_.taps(), group_k(), g_.taps());
  }

  /// Calls f(tile) in parallel for all tiles of at most `rows` output rows.
  template <class F>
  void for_each_tile(int64_t rows, F&& f) const {
    const int64_t per_image = ceil_div(g_.P, rows);
    parallel_for(g_.N * per_image * g_.groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t strip = i / g_.groups % per_image;
        f(Tile{i / g_.groups / per_image, strip * rows, std::min((strip + 1) * rows, g_.P),
               i % g_.groups});
      }
    });
  }

 private:
  int64_t y_offset(const Tile& t) const {
    return (t.image * g_.P + t.first) * g_.Q * g_.K + t.group * group_k();
  }

  /// Calls f(offset in x) for each tap (r, s) of each pixel of the tile, in order; the offset is
  /// -1 for padding.
  template <class F>
  void for_each_run(const Tile& t, F&& f) const {
    for (int64_t p = t.first; p < t.last; ++p) {
      for (int64_t q = 0; q < g_.Q; ++q) {
        for (int64_t r = 0; r < g_.R; ++r) {
          const int64_t h = p * g_.stride.rows - g_.pad.rows + r * g_.dilation.rows;
          for (int64_t s = 0; s < g_.S; ++s) {
            const int64_t w = q * g_.stride.cols - g_.pad.cols + s * g_.dilation.cols;
            const bool inside = h >= 0 && h < g_.H && w >= 0 && w < g_.W;
            f(inside ? ((t.image * g_.H + h) * g_.W + w) * g_.C + t.group * group_c() : -1);
          }
        }
      }
    }
  }

  Conv2dGeometry g_;
};

/// Output rows per tile: so many that the patches of a tile stay in the second-level cache.
int64_t rows_per_tile(const Conv2dGeometry& g) {
  constexpr int64_t kPatchElements = 1 << 16;
  return std::clamp<int64_t>(kPatchElements / (g.Q * g.taps()), 1, g.P);
}

template <class T>
void forward(const Conv2dGeometry& g, T* y, const T* x, const T* w, const T* bias) {
  const Im2col<T> conv(g);
  conv.for_each_tile(rows_per_tile(g), [&](const Tile& t) {
    std::vector<T> buffer;
    const MatrixRef<T> out = conv.rows_of(t, y);
    GemmMode mode = GemmMode::kWrite;
    if (bias != nullptr) {
      mode = GemmMode::kAdd;
      for (int64_t i = 0; i < out.rows; ++i) {
        std::copy_n(bias + t.group * out.cols, out.cols, out.data + i * out.row_step);
      }
    }
    gemm_serial(out, conv.patches(t, x, buffer), conv.weights(t, w).transposed(), mode);
  });
}

template <class T>
void backward_input(const Conv2dGeometry& g, T* dx, const T* dy, const T* w) {
  const Im2col<T> conv(g);
  std::fill_n(dx, g.N * g.C * g.H * g.W, T(0));
  conv.for_each_tile(g.P, [&](const Tile& image) {  // rows overlap in dx, images and groups do not
    const int64_t rows = rows_per_tile(g);
    std::vector<T> buffer(static_cast<size_t>(rows * g.Q * g.taps()));
    for (int64_t first = 0; first < g.P; first += rows) {
      const Tile t{image.image, first, std::min(first + rows, g.P), image.group};
      const auto patches = MatrixRef<T>::row_major(buffer.data(), conv.pixels(t), g.taps());
      gemm_serial(patches, conv.rows_of(t, dy), conv.weights(t, w), GemmMode::kWrite);
      conv.scatter(t, dx, buffer.data());
    }
  });
}

template <class T>
void backward_weight(const Conv2dGeometry& g, T* dw, const T* dy, const T* x) {
  const Im2col<T> conv(g);
  const int64_t size = g.K * g.taps();
  // The images are summed in a fixed number of parts, then the parts in order, so the result is the
  // same for any number of threads.
  constexpr int64_t kMaxParts = 16, kPartElements = int64_t{1} << 22;
  const int64_t parts = std::min(g.N, std::clamp<int64_t>(kPartElements / size, 2, kMaxParts));
  const int64_t images = ceil_div(g.N, parts);
  std::vector<T> sums(static_cast<size_t>(parts * size), T(0));
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    std::vector<T> buffer;
    const int64_t rows = rows_per_tile(g);
    for (int64_t part = begin; part < end; ++part) {
      const int64_t stop = std::min((part + 1) * images, g.N);
      for (int64_t n = part * images; n < stop; ++n) {
        for (int64_t group = 0; group < g.groups; ++group) {
          for (int64_t first = 0; first < g.P; first += rows) {
            const Tile t{n, first, std::min(first + rows, g.P), group};
            gemm_serial(conv.weights(t, sums.data() + part * size),
                        conv.rows_of(t, dy).transposed(), conv.patches(t, x, buffer),
                        GemmMode::kAdd);
          }
        }
      }
    }
  });
  std::copy_n(sums.data(), size, dw);
  for (int64_t part = 1; part < parts; ++part) {
    for (int64_t i = 0; i < size; ++i) dw[i] += sums[static_cast<size_t>(part * size + i)];
  }
}

/// Calls f with a float or a double.
template <class F>
void visit_compute(const Tensor& t, F&& f) {
  if (t.dtype() == kF64) {
    f(double{});
  } else {
    f(float{});
  }
}

}  // namespace

void im2col_forward(const Conv2dGeometry& g, const Tensor& y, const Tensor& x, const Tensor& w,
                    const Tensor& bias) {
  const Tensor out = channels_last(y, false), in = channels_last(x, true),
               weights = channels_last(w, true);
  visit_compute(y, [&](auto zero) {
    using T = decltype(zero);
    forward<T>(g, out.data<T>(), in.data<T>(), weights.data<T>(),
               bias.defined() ? bias.data<T>() : nullptr);
  });
  write_back(y, out);
}

void im2col_backward_input(const Conv2dGeometry& g, const Tensor& dx, const Tensor& dy,
                           const Tensor& w) {
  const Tensor out = channels_last(dx, false), in = channels_last(dy, true),
               weights = channels_last(w, true);
  visit_compute(dx, [&](auto zero) {
    using T = decltype(zero);
    backward_input<T>(g, out.data<T>(), in.data<T>(), weights.data<T>());
  });
  write_back(dx, out);
}

void im2col_backward_weight(const Conv2dGeometry& g, const Tensor& dw, const Tensor& dy,
                            const Tensor& x) {
  const Tensor out = channels_last(dw, false), in_dy = channels_last(dy, true),
               in_x = channels_last(x, true);
  visit_compute(dw, [&](auto zero) {
    using T = decltype(zero);
    backward_weight<T>(g, out.data<T>(), in_dy.data<T>(), in_x.data<T>());
  });
  write_back(dw, out);
}

}  // namespace lathe::cpu
