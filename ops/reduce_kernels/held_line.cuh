// Lines that their threads hold in registers, so that each number is read from memory once: for
// dense lines, a whole number of packets long, of 65 to 8,192 numbers. Others are the matter of
// line_kernels.cuh. For .cu files only.
#pragma once

#include <utility>

#include "lathe/core/gpu/packet.cuh"
#include "lathe/core/visit.h"
#include "lathe/ops/reduce_kernels/block_reduce.cuh"
#include "lathe/ops/reduce_kernels/reduce_kernels.cuh"

namespace lathe::cuda {

/// Numbers that a thread holds. Lines get so many threads that more than half of them are in use.
inline constexpr int kHeld = 32;

/// Not f64, whose numbers would take twice the registers.
template <class T>
inline constexpr bool kHolds = sizeof(ComputeType<T>) == 4;

template <class T>
inline constexpr int kHeldPacket = 16 / static_cast<int>(sizeof(T));

/// A line's threads are a part of a warp, or a block of their own.
struct HeldLines {
  int64_t count, n;
  unsigned width;  // threads per line

  HeldLines(int64_t count_, int64_t n_)
      : count(count_), n(n_), width(power_above(ceil_div(n_, kHeld))) {}
  unsigned block() const { return width > kWarpSize ? width : kReduceBlock; }
  dim3 grid() const { return dim3(static_cast<unsigned>(ceil_div(count, block() / width))); }
};

/// Whether HeldLine<T> can work on lines of tensors that begin at these addresses.
template <class T, class... Rest>
bool can_hold(const HeldLines& lines, const T* first, const Rest*... rest) {
  return lines.n > 2 * kHeld && lines.n <= kHeld * kReduceBlock && lines.n % kHeldPacket<T> == 0 &&
         holds_packets<kHeldPacket<T>>(first) && (holds_packets<kHeldPacket<Rest>>(rest) && ...);
}

/// A thread's part of its line: packets lane, lane + width, … Threads past the last line have none,
/// but must take part in the reductions.
template <class T>
class HeldLine {
 public:
  using A = ComputeType<T>;
  static constexpr int kPacket = kHeldPacket<T>, kPackets = kHeld / kPacket;
  using Numbers = Packet<T, kPacket>;

  __device__ explicit HeldLine(const HeldLines& lines)
      : width_(static_cast<int>(lines.width)), lane_(static_cast<int>(threadIdx.x) % width_) {
    line_ = blockIdx.x * int64_t(blockDim.x / lines.width) + threadIdx.x / lines.width;
    active_ = line_ < lines.count;
    packets_ = active_ ? static_cast<int>(lines.n / kPacket) : 0;
    start_ = line_ * lines.n;
  }

  __device__ int64_t line() const { return line_; }
  /// The offset of the line's first number.
  __device__ int64_t start() const { return start_; }
  __device__ bool active() const { return active_; }
  /// True in the one thread that does what is done once per line.
  __device__ bool leads() const { return active_ && lane_ == 0; }
  /// True if packet u is a part of the line.
  __device__ bool holds(int u) const { return lane_ + u * width_ < packets_; }

  /// The numbers of x; `filler` where the line has none.
  __device__ void load(A (&v)[kHeld], const T* x, A filler) const {
    const Numbers* const from = reinterpret_cast<const Numbers*>(x + start_) + lane_;
    Numbers read[kPackets] = {};
    for (int u = 0; u < kPackets; ++u) {
      if (holds(u)) read[u] = from[u * width_];
    }
    for (int k = 0; k < kHeld; ++k)
      v[k] = holds(k / kPacket) ? static_cast<A>(read[k / kPacket].v[k % kPacket]) : filler;
  }

  /// f(u, i) for each packet u, whose first number is number i of the line.
  template <class F>
  __device__ void each(F f) const {
    const auto one = [&](int u) {
      if (holds(u)) f(u, (lane_ + u * width_) * kPacket);
    };
    // Not a loop: where it were not unrolled, the numbers could not stay in registers.
    [&]<int... U>(std::integer_sequence<int, U...>) { (one(U), ...); }
    (std::make_integer_sequence<int, kPackets>{});
  }
  /// Writes the packet that begins with number i of y.
  __device__ void write(T* y, int64_t i, const Numbers& packet) const {
    *reinterpret_cast<Numbers*>(y + start_ + i) = packet;
  }
  /// Writes value(k) to y, for each number k of the thread.
  template <class F>
  __device__ void store(T* y, F value) const {
    each([&](int u, int64_t i) {
      Numbers packet;
      for (int k = 0; k < kPacket; ++k) packet.v[k] = static_cast<T>(value(u * kPacket + k));
      write(y, i, packet);
    });
  }

  /// The reduction of number(0) … number(kHeld - 1) of all threads, for all of them.
  template <class Math, class F>
  __device__ A reduce(F number) const {
    A part[kFold];
    for (int k = 0; k < kFold; ++k) part[k] = number(k);
    for (int k = kFold; k < kHeld; ++k) part[k % kFold] = Math::combine(part[k % kFold], number(k));
    const A total = Math::fold(part, kFold, 0, 1);
    if (width_ > static_cast<int>(kWarpSize)) return block_reduce_all(total, Combine<Math>{});
    return warp_reduce_all(total, Combine<Math>{}, static_cast<unsigned>(width_));
  }

 private:
  int width_, lane_, packets_;
  int64_t line_, start_;
  bool active_;
};

}  // namespace lathe::cuda
