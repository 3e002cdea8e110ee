// CPU kernels of ops/random.h: one counter makes four values; element i takes lane i % 4 of counter
// i / 4.
#include <limits>

#include "lathe/core/copy.h"
#include "lathe/core/philox.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/random.h"

namespace lathe::cpu {

namespace {

constexpr int64_t kCountersPerTask = 4096;

/// Calls make(bits, values[4]) for every counter and stores its four values, in row-major order of
/// `out`.
template <class T, class Make>
void fill_dense(T* out, int64_t n, Generator::Block block, Make make) {
  parallel_for((n + 3) / 4, kCountersPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      T values[4];
      make(philox4x32_10(block.seed, block.offset + static_cast<uint64_t>(c), 0), values);
      for (int64_t lane = 0; lane < 4 && 4 * c + lane < n; ++lane) out[4 * c + lane] = values[lane];
    }
  });
}

/// The same for any strides: through a dense copy.
template <class T, class Make>
void fill(const Tensor& out, Generator::Block block, Make make) {
  if (out.numel() == 0) return;
  const bool dense = out.is_contiguous();
  const Tensor target = dense ? out : empty(out.shape(), {.dtype = out.dtype()});
  fill_dense(target.data<T>(), out.numel(), block, make);
  if (!dense) copy_values(out, target);
}

/// A uniform number of [0, 1) with as many bits as T holds exactly: more would round some of them
/// up to 1.
template <class T>
ComputeType<T> uniform_as(uint32_t bits) {
  if constexpr (sizeof(T) > 2) {
    return static_cast<ComputeType<T>>(uniform_from_bits(bits));
  } else {
    constexpr int kBits = std::numeric_limits<T>::digits;
    return static_cast<float>(bits >> (32 - kBits)) / static_cast<float>(1u << kBits);
  }
}

}  // namespace

void fill_uniform(const Tensor& out, double low, double high, Generator::Block block) {
  visit_float(out.dtype(), "uniform", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C from = static_cast<C>(low), span = static_cast<C>(high - low),
            end = static_cast<C>(high);
    fill<T>(out, block, [=](const Philox4x32& bits, T* values) {
      for (int i = 0; i < 4; ++i) {
        values[i] = T(from + span * uniform_as<T>(bits.v[i]));
        // Rounding may reach the open end; the closed end takes its place.
        if (C(values[i]) >= end && span > C(0)) values[i] = T(from);
      }
    });
  });
}

void fill_normal(const Tensor& out, double mean, double std, Generator::Block block) {
  visit_float(out.dtype(), "normal", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const C center = static_cast<C>(mean), scale = static_cast<C>(std);
    fill<T>(out, block, [=](const Philox4x32& bits, T* values) {
      const Normals4 normals = normals_from_bits(bits);
      for (int i = 0; i < 4; ++i) values[i] = T(center + scale * C(normals.v[i]));
    });
  });
}

void fill_integers(const Tensor& out, int64_t low, uint64_t span, Generator::Block block) {
  visit_number(out.dtype(), "randint", [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill<T>(out, block, [=](const Philox4x32& bits, T* values) {
      for (int i = 0; i < 4; ++i) {
        // Four 32-bit words make four values; a wide span takes 64 bits from two neighbouring
        // words.
        const uint64_t wide = uint64_t{bits.v[i]} | uint64_t{bits.v[(i + 1) % 4]} << 32;
        const uint64_t word = span <= UINT32_MAX ? bits.v[i] : wide;
        const int64_t value = static_cast<int64_t>(static_cast<uint64_t>(low) + word % span);
        if constexpr (std::is_integral_v<T>) {
          values[i] = static_cast<T>(value);
        } else {
          values[i] = T(static_cast<ComputeType<T>>(value));
        }
      }
    });
  });
}

}  // namespace lathe::cpu
