// CUDA kernels of layer_norm and group_norm, with the arithmetic of row_norm_math.h and the moments
// of reduce_device.cuh. Contract: row_norm.h.
#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/core/visit.h"
#include "lathe/ops/reduce_kernels/held_line.cuh"
#include "lathe/ops/reduce_kernels/line_kernels.cuh"
#include "lathe/ops/reduce_kernels/reduce_device.cuh"
#include "lathe/ops/row_kernels/row_norm_math.h"
#include "lathe/ops/row_norm.h"

namespace lathe::cuda {

namespace {

/// The channel that a number of a row belongs to.
class ChannelOf {
 public:
  explicit ChannelOf(const RowNormShape& s)
      : groups_(s.groups), channels_(s.channels), inner_(s.inner) {
    fits_32_bits_ = s.row_size() < INT32_MAX;
    if (fits_32_bits_ && inner_ > 0) divider_ = Divider<uint32_t>(inner_);
  }
  /// The channel of number 0 of the row.
  __device__ int64_t first(int64_t row) const { return row % groups_ * channels_; }
  /// True if each number has a channel of its own.
  __device__ bool each_own() const { return inner_ == 1; }
  /// The channel of number i, counted from that one.
  __device__ int64_t operator()(int64_t i) const {
    if (inner_ == 1) return i;
    return fits_32_bits_ ? int64_t{divider_.quotient(static_cast<uint32_t>(i))} : i / inner_;
  }

 private:
  int64_t groups_, channels_, inner_;
  bool fits_32_bits_;
  Divider<uint32_t> divider_;
};

/// Inputs; weight and bias may be null: 1 and 0.
template <class T>
struct Row {
  using A = ComputeType<T>;
  const T* x;
  const T* dy;  // null in the forward pass
  const A *weight, *bias;
};

/// The parameters (`none` without any) of a packet that begins with number i: its numbers have a
/// channel each, or one for all. `from` is that of the row's first channel.
template <int V, class A>
__device__ void load_parameters(A (&to)[V], const A* from, A none, const ChannelOf& channel,
                                int64_t i) {
  constexpr int kPart = 16 / static_cast<int>(sizeof(A));
  if (from == nullptr) {
    for (A& one : to) one = none;
  } else if (channel.each_own()) {
    Packet<A, kPart> read[V / kPart];
    for (int k = 0; k < V / kPart; ++k)
      read[k] = reinterpret_cast<const Packet<A, kPart>*>(from + i)[k];
    for (int k = 0; k < V; ++k) to[k] = read[k / kPart].v[k % kPart];
  } else {
    const A shared = from[channel(i)];
    for (A& one : to) one = shared;
  }
}

// Rows that fit the registers: the moments in two passes, over numbers less the row's first one,
// then y. Memory bound: 2 * sizeof(T) bytes per element. Meant to reach 85 % of the copy bandwidth
// in f32, 80 % in 16 bits.
template <class T, class A = ComputeType<T>>
__global__ void __launch_bounds__(kReduceBlock, 2)
    forward_held_kernel(T* y, A* means, A* rstds, Row<T> in, ChannelOf channel, A eps,
                        HeldLines lines) {
  using Sum = SimpleMath<reduce_math::Sum<A>>;
  const HeldLine<T> line(lines);
  const bool active = line.active();
  const A origin = active ? static_cast<A>(in.x[line.start()]) : A(0);
  const A n = static_cast<A>(lines.n);
  A x[kHeld];
  line.load(x, in.x, origin);
  const A centre = line.template reduce<Sum>([&](int i) { return x[i] - origin; }) / n;
  const A squares = line.template reduce<Sum>([&](int i) {
    const A d = line.holds(i / line.kPacket) ? x[i] - origin - centre : A(0);
    return d * d;
  });
  const A rstd = A(1) / std::sqrt(squares / n + eps);
  if (!active) return;
  const A mean = centre + origin;
  const int64_t row = line.line(), first = channel.first(row);
  if (line.leads()) {
    means[row] = mean;
    rstds[row] = rstd;
  }
  line.each([&](int u, int64_t i) {
    A weight[line.kPacket], bias[line.kPacket];
    load_parameters(weight, in.weight == nullptr ? nullptr : in.weight + first, A(1), channel, i);
    load_parameters(bias, in.bias == nullptr ? nullptr : in.bias + first, A(0), channel, i);
    typename HeldLine<T>::Numbers packet;
    for (int k = 0; k < line.kPacket; ++k) {
      const A xhat = math::row_norm_hat(x[u * line.kPacket + k], mean, rstd);
      packet.v[k] = static_cast<T>(math::row_norm_affine(xhat, weight[k], bias[k]));
    }
    line.write(y, i, packet);
  });
}

// One row per line of threads (LineGrid): one pass over the row for the moments, and a second one
// for y, which finds the row in the cache. Memory bound: 2 * sizeof(T) bytes per element. Meant to
// reach 80 % of the copy bandwidth with some hundred rows or more that fit the cache.
template <class T, class A = ComputeType<T>>
__global__ void __launch_bounds__(kReduceBlock, 2)
    forward_kernel(T* y, A* means, A* rstds, Row<T> in, ChannelOf channel, A eps, LineGrid lines) {
  const LineThread thread(lines);
  // The moments are those of x minus the row's first number.
  const auto moments = thread.template reduce<MomentsMath<A>>(in.x);
  if (!thread.active()) return;
  const A mean = moments.mean + static_cast<A>(in.x[thread.at(0)]);
  const A rstd = A(1) / std::sqrt(moments.variance(A(0)) + eps);
  const int64_t row = thread.line(), first = channel.first(row);
  if (thread.leads()) {
    means[row] = mean;
    rstds[row] = rstd;
  }
  thread.each([&](int64_t i, int64_t at) {
    const int64_t c = first + channel(i);
    const A weight = in.weight == nullptr ? A(1) : in.weight[c];
    const A bias = in.bias == nullptr ? A(0) : in.bias[c];
    const A xhat = math::row_norm_hat(static_cast<A>(in.x[at]), mean, rstd);
    y[at] = static_cast<T>(math::row_norm_affine(xhat, weight, bias));
  });
}

template <class A>
struct Pair {
  A g, gx;
};

/// Adds up pairs.
template <class A>
struct PairMath {
  using Value = Pair<A>;
  using Partial = Pair<A>;
  static constexpr Value kFiller = {A(0), A(0)};
  static constexpr bool kCentred = false;
  __device__ static Value value(const Pair<A>& v) { return v; }
  __device__ static Partial start() { return {A(0), A(0)}; }
  __device__ static Partial fold(const Value (&v)[kFold], int, int64_t, int64_t) {
    A g[kFold], gx[kFold];
    for (int i = 0; i < kFold; ++i) {
      g[i] = v[i].g;
      gx[i] = v[i].gx;
    }
    return {fold_pairs<reduce_math::Sum<A>>(g), fold_pairs<reduce_math::Sum<A>>(gx)};
  }
  __device__ static Partial combine(const Partial& a, const Partial& b) {
    return {a.g + b.g, a.gx + b.gx};
  }
};

/// The source of g and g * xhat for number i of a row.
template <class T>
struct RowGradient {
  using A = ComputeType<T>;
  const T *x, *dy;  // of the row
  const A* weight;  // of its first channel
  ChannelOf channel;
  A mean, rstd;

  __device__ A xhat(int64_t i) const {
    return math::row_norm_hat(static_cast<A>(x[i]), mean, rstd);
  }
  __device__ A g(int64_t i) const {
    const A d = static_cast<A>(dy[i]);
    return weight == nullptr ? d : d * weight[channel(i)];
  }
  __device__ Pair<A> operator[](int64_t i) const {
    const A own = g(i);
    return {own, own * xhat(i)};
  }
};

// dx of one row per line of threads: one pass over the row for two sums, and a second one for dx.
// Memory bound: 3 * sizeof(T) bytes per element. Meant to reach 80 % of the copy bandwidth, as
// above.
template <class T, class A = ComputeType<T>>
__global__ void __launch_bounds__(kReduceBlock, 2)
    input_kernel(T* dx, Row<T> in, const A* means, const A* rstds, ChannelOf channel,
                 LineGrid lines) {
  const LineThread thread(lines);
  const int64_t row = thread.active() ? thread.line() : 0, start = row * lines.n;
  const A* weight = in.weight == nullptr ? nullptr : in.weight + channel.first(row);
  const RowGradient<T> own{in.x + start, in.dy + start, weight, channel, means[row], rstds[row]};
  const Pair<A> sums = thread.template reduce_along<PairMath<A>>(own);
  const A n = static_cast<A>(lines.n), mean_g = sums.g / n, mean_gx = sums.gx / n;
  thread.each([&](int64_t i, int64_t at) {
    dx[at] = static_cast<T>(math::row_norm_grad(own.g(i), own.xhat(i), own.rstd, mean_g, mean_gx));
  });
}

// The same for rows that fit the registers, which are read once.
template <class T, class A = ComputeType<T>>
__global__ void __launch_bounds__(kReduceBlock, 2)
    input_held_kernel(T* dx, Row<T> in, const A* means, const A* rstds, ChannelOf channel,
                      HeldLines lines) {
  using Sum = SimpleMath<reduce_math::Sum<A>>;
  const HeldLine<T> line(lines);
  const int64_t row = line.active() ? line.line() : 0;
  const A mean = means[row], rstd = rstds[row], n = static_cast<A>(lines.n);
  const A* weights = in.weight == nullptr ? nullptr : in.weight + channel.first(row);
  A xhat[kHeld], g[kHeld];
  line.load(xhat, in.x, mean);
  line.load(g, in.dy, A(0));
  for (A& own : xhat) own = math::row_norm_hat(own, mean, rstd);
  line.each([&](int u, int64_t i) {
    A weight[line.kPacket];
    load_parameters(weight, weights, A(1), channel, i);
    for (int k = 0; k < line.kPacket; ++k) g[u * line.kPacket + k] *= weight[k];
  });
  const A mean_g = line.template reduce<Sum>([&](int k) { return g[k]; }) / n;
  const A mean_gx = line.template reduce<Sum>([&](int k) { return g[k] * xhat[k]; }) / n;
  line.store(dx, [&](int k) { return math::row_norm_grad(g[k], xhat[k], rstd, mean_g, mean_gx); });
}

// dweight and dbias of kRowNormPart rows. For each part and channel `lanes` threads add up that
// channel's numbers in the part's rows; the caller adds up the parts. Neighbouring threads read
// neighbouring channels or, where inner > 1, neighbouring numbers of one channel. Memory bound:
// 2 * sizeof(T) bytes per element, which input_kernel has just read: some are still in the cache.
template <class T, class A = ComputeType<T>>
__global__ void __launch_bounds__(kReduceBlock)
    params_kernel(A* dweight, A* dbias, Row<T> in, const A* means, const A* rstds, RowNormShape s,
                  int64_t items, unsigned lanes) {
  const int64_t item = (blockIdx.x * int64_t(kReduceBlock) + threadIdx.x) / lanes;
  const int64_t columns = s.groups * s.channels;
  Pair<A> sum = {A(0), A(0)};
  if (item < items) {
    const int64_t begin = item / columns * kRowNormPart, column = item % columns;
    const int64_t group = column / s.channels, c = column % s.channels;
    const int64_t limit = begin + kRowNormPart;
    const int64_t end = limit < s.rows() ? limit : s.rows();
    // The first row of the part that belongs to the group.
    int64_t row = begin + (group - begin % s.groups + s.groups) % s.groups;
    for (; row < end; row += s.groups) {
      const int64_t start = row * s.row_size() + c * s.inner;
      for (int64_t i = threadIdx.x % lanes; i < s.inner; i += lanes) {
        const A d = static_cast<A>(in.dy[start + i]);
        sum.g += d;
        sum.gx += d * math::row_norm_hat(static_cast<A>(in.x[start + i]), means[row], rstds[row]);
      }
    }
  }
  sum = warp_reduce(sum, Combine<PairMath<A>>{}, lanes);
  if (item >= items || threadIdx.x % lanes != 0) return;
  if (dweight != nullptr) dweight[item] = sum.gx;
  if (dbias != nullptr) dbias[item] = sum.g;
}

/// Whether packets can be read from all of these, and hold whole channels or lie within one.
template <class T>
bool can_hold_rows(const RowNormShape& shape, const HeldLines& lines, const Row<T>& in,
                   const T* out) {
  return (shape.inner == 1 ? shape.channels : shape.inner) % kHeldPacket<T> == 0 &&
         can_hold(lines, out, in.x, in.dy, in.weight, in.bias);
}

template <class S>
S* data_or_null(const Tensor& t) {
  return t.defined() ? t.data<S>() : nullptr;
}

}  // namespace

void row_norm_forward(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                      const Tensor& weight, const Tensor& bias, const RowNormShape& shape,
                      double eps) {
  if (x.numel() == 0) return;
  visit_float(x.dtype(), "row_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    const Row<T> in{x.data<T>(), nullptr, data_or_null<A>(weight), data_or_null<A>(bias)};
    const Stream stream = current_stream(x.device());
    const auto run = [&](auto kernel, const auto& rows, unsigned block) {
      launch(kernel, rows.grid(), dim3(block), 0, stream, y.data<T>(), mean.data<A>(),
             rstd.data<A>(), in, ChannelOf(shape), static_cast<A>(eps), rows);
    };
    const HeldLines held(shape.rows(), shape.row_size());
    if (kHolds<T> && can_hold_rows(shape, held, in, y.data<T>())) {
      if constexpr (kHolds<T>) run(forward_held_kernel<T>, held, held.block());
    } else {
      run(forward_kernel<T>, LineGrid(shape.rows(), shape.row_size(), 1), kReduceBlock);
    }
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

void row_norm_backward(const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
                       const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                       const Tensor& weight, const RowNormShape& shape) {
  visit_float(x.dtype(), "row_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    const Stream stream = current_stream(x.device());
    const Row<T> in{x.data<T>(), dy.data<T>(), data_or_null<A>(weight), nullptr};
    if (x.numel() > 0) {
      const auto run = [&](auto kernel, const auto& rows, unsigned block) {
        launch(kernel, rows.grid(), dim3(block), 0, stream, dx.data<T>(), in, mean.data<A>(),
               rstd.data<A>(), ChannelOf(shape), rows);
      };
      const HeldLines held(shape.rows(), shape.row_size());
      if (kHolds<T> && can_hold_rows(shape, held, in, dx.data<T>())) {
        if constexpr (kHolds<T>) run(input_held_kernel<T>, held, held.block());
      } else {
        run(input_kernel<T>, LineGrid(shape.rows(), shape.row_size(), 1), kReduceBlock);
      }
      LATHE_CUDA_CHECK(cudaGetLastError());
    }
    const int64_t items = dweight.defined() ? dweight.numel() : dbias.defined() ? dbias.numel() : 0;
    if (items == 0) return;
    const unsigned lanes = lanes_for(shape.inner);
    const int64_t blocks = ceil_div(items, kReduceBlock / lanes);
    launch(params_kernel<T>, dim3(static_cast<unsigned>(blocks)), dim3(kReduceBlock), 0, stream,
           data_or_null<A>(dweight), data_or_null<A>(dbias), in, mean.data<A>(), rstd.data<A>(),
           shape, items, lanes);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

}  // namespace lathe::cuda
